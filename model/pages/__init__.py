"""Pages that show what a model reads."""
