"""The task to learn: texts to train and to choose on, as the model reads them, and labels."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data_utils.labelled import LabelledSet, held_out_rows, warn_of_shared_texts
from mlstm_sentiment.errors import InputError
from model.inference.weights import LoadedModel

from ..regression import check_classes

REMEDY = ": give --val texts of another class too, or without --val hold out a larger --val-share"


@dataclass(frozen=True)
class Task:
    """Texts in tokens, and their labels."""

    train: list[np.ndarray]  # tokens [n] each
    val: list[np.ndarray]
    train_labels: np.ndarray  # int64 [N], or [N, C] of 0 and 1
    val_labels: np.ndarray
    classes: tuple[str, ...]

    @property
    def is_multilabel(self) -> bool:
        return self.train_labels.ndim == 2

    @cached_property
    def digest(self) -> str:
        """A digest of the task, which a resume compares."""
        digest = hashlib.sha256(repr(self.classes).encode())
        for sequences, labels in ((self.train, self.train_labels), (self.val, self.val_labels)):
            digest.update(labels.tobytes())
            for sequence in sequences:
                digest.update(len(sequence).to_bytes(8, "little") + sequence.tobytes())
        return digest.hexdigest()


def make_task(loaded: LoadedModel, train: LabelledSet, val: LabelledSet) -> Task:
    """Encode the texts; InputError if a class could not be learned, or no epoch chosen."""
    check_learnable(train)
    if not val.is_multilabel:
        check_classes(val.labels, "validation", REMEDY)
    train_sequences, val_sequences = (list(map(loaded.encode, p.texts)) for p in (train, val))
    return Task(train_sequences, val_sequences, train.labels, val.labels, train.classes)


def check_learnable(train: LabelledSet) -> None:
    """Refuse a class that every training text has, or that none has."""
    if not train.is_multilabel:
        check_classes(train.labels)
        for label, name in enumerate(train.classes):
            if label not in train.labels:  # all of them were held out
                raise InputError(
                    f"class {name!r}: none of the {len(train.labels)} texts to learn from has it; "
                    "give --val, or another --seed or --val-share"
                )
        return
    counts = train.labels.sum(0)
    for name, count in zip(train.classes, counts, strict=True):
        if count in (0, len(train.labels)):
            number = "none" if count == 0 else "every one"
            raise InputError(
                f"class {name!r}: {number} of the {len(train.labels)} training texts has it, "
                "so it cannot be learned; leave it out"
            )


def hold_out(train: LabelledSet, fraction: float, seed: int) -> tuple[LabelledSet, LabelledSet]:
    """Split a training set into one to learn from and one to choose on, drawn by the seed."""
    training, validation = map(np.sort, held_out_rows(len(train.texts), fraction, seed))
    parts = (train.subset(training), train.subset(validation))
    warn_of_shared_texts(parts, ("the texts to learn from", "the texts held out"))
    return parts
