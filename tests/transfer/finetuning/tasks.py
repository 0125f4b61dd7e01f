"""Tasks that a tiny model can learn: the last characters of a text give its labels away.

And a signal that ends the learning early.
"""

import numpy as np

from data_utils.labelled import LabelledSet
from training.runs.signals import StopRequest

CLASSES = ("loud", "asking")


def several(count, seed=0):
    """Texts that are loud, asking, both or neither."""
    labels = np.random.default_rng(seed).integers(0, 2, size=(count, 2))
    texts = [text_of(row, seed + n) for n, row in enumerate(labels)]
    return LabelledSet(texts, labels.astype(np.int64), CLASSES)


def single(count, seed=0, classes=3):
    """Texts that are one of plain, loud or asking."""
    labels = np.random.default_rng(seed).integers(0, classes, size=count)
    rows = np.array([[0, 0], [1, 0], [0, 1]])[labels]
    texts = [text_of(row, seed + n) for n, row in enumerate(rows)]
    return LabelledSet(texts, labels.astype(np.int64), ("plain", "loud", "asking")[:classes])


def text_of(row, seed):
    words = ["so", "it", "was", "a", "very", "fine", "day"]
    opening = " ".join(np.random.default_rng(seed).choice(words, size=1 + seed % 5))
    return opening + "!!" * int(row[0]) + "??" * int(row[1])


class StopAfter(StopRequest):
    """A signal that comes when it has been asked for so many times."""

    def __init__(self, times):
        super().__init__()
        self.left = times

    @property
    def requested(self):
        self.left -= 1
        return self.left < 0
