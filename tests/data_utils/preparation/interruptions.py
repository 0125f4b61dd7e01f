"""Interruptions at a known point of a preparation, and sources that show who reads them again."""

import logging
import os
import shutil
from contextlib import contextmanager

import pytest


class Interrupting(logging.Handler):
    """Raises KeyboardInterrupt, as Ctrl-C does, when the log says certain words."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def emit(self, record):
        if self.words in record.getMessage():
            raise KeyboardInterrupt


@contextmanager
def interrupted_at(words):
    """Interrupt what is inside when it logs `words`; fail if it never does."""
    log, handler = logging.getLogger("data_utils"), Interrupting(words)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def interrupted_removal(folder, name):
    """Interrupt the removal of a folder, under whatever name, when one file in it is gone."""
    remove = shutil.rmtree

    def remove_one(path, **options):
        found = next(path.glob(name), None) if folder in path.name else None
        if found is None:
            remove(path, **options)
            return
        found.unlink()
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
