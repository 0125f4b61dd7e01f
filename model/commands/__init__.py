"""The installed command: one module for each thing it does, which the scripts call too."""
