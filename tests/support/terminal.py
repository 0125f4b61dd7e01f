"""A stream that says that it is a terminal, so that bars are drawn on it."""

import io


class Terminal(io.StringIO):
    """Stores what is drawn."""

    def isatty(self):
        return True
