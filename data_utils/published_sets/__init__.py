"""The labelled sets of the literature: how each is read and cut, and what was published on it."""
