"""Texts to a shuffled, split corpus, in bounded memory."""
