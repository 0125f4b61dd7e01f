"""Interruptions at a known point of a preparation, and sources that show who reads them again."""

import logging
import os
import shutil
from contextlib import contextmanager

import pytest


class Acting(logging.Handler):
    """Calls a function when the log says certain words; it may act as Ctrl-C or another process."""

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


@contextmanager
def interrupted_removal(folder, name):
    """Interrupt the removal of a folder, under whatever name, when one file in it is gone."""
    remove = shutil.rmtree

    def remove_one(path, **options):
        file = next(path.glob(name), None) if folder in path.name else None
        if file is None:
            remove(path, **options)
            return
        file.unlink()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_one)
        with pytest.raises(KeyboardInterrupt):
            yield


def change_unnoticed(path, old, new):
    """Replace bytes but keep the size and the date, by which preparation knows a changed file.

    What the file held before can then come only from the work of an earlier call.
    """
    stat, content = path.stat(), path.read_bytes()
    assert old in content
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
