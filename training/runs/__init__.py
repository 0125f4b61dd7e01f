"""The folder of a run: locked, written, saved and resumed."""
