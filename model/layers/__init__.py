"""Layers of the language model, one file for each kind of cell."""
