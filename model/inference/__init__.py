"""A loaded model at work: features, bits per character, generated text."""
