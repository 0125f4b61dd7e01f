"""Several processes as one: ranks, agreement, and the exchange of gradients."""
