"""Weights that others published, read into our model and written back in their layout."""
