"""Interruptions at a known point of a command: when it logs certain words."""

import logging
from contextlib import contextmanager

import pytest


class Acting(logging.Handler):
    """Acts, as Ctrl-C or another process may, when the log says certain words."""

    def __init__(self, words, act):
        super().__init__()
        self.words, self.act = words, act

    def emit(self, record):
        if self.words in record.getMessage():
            self.act()


@contextmanager
def acting_at(words, act, logger="data_utils"):
    """Call `act` in the middle of what is inside: each time that it logs `words`."""
    log, handler = logging.getLogger(logger), Acting(words, act)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def interrupted_at(words, logger="data_utils"):
    """Interrupt what is inside when it logs `words`; fail if it never does."""

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), acting_at(words, interrupt, logger):
        yield
