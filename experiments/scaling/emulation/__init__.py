"""A scale model of a cluster: what it measures, which runs count, and its results."""
