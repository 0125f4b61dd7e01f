"""The installed command: one module for each of its commands, which the scripts call too."""
