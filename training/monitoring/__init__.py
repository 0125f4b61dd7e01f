"""What a run shows of its model while it learns."""
