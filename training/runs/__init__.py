"""The folder of a run: locked, written, saved, resumed and packed."""
