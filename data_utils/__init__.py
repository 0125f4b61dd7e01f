"""From reviews to tokens on disk to lanes. It uses nothing of `model` that computes."""
