"""Texts as tokens: profiles, tokenizers, batches of unequal lengths."""
