"""Layers of the language model, a file for each kind of cell; the mLSTM's recurrence; the loss."""
