"""Layers of the language model, one file for each kind of cell; and the mLSTM's recurrence."""
