"""Pages that show how a model processes texts."""
