"""The labelled sets of the literature and the Amazon reviews: what they are, where to get them."""
