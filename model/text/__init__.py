"""Texts as symbols: profiles, tokenizers, batches of unequal lengths."""
