"""Features of labelled texts, computed once and kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_utils.labelled import LabelledSet
from mlstm_sentiment.engine.features import REMEDY, TextFeatures, mapped, write_features
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.engine.kinds import FINAL_CELL, FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import one_at_a_time
from mlstm_sentiment.files.writer import make_folder, set_aside
from mlstm_sentiment.reading.progress import ProgressBar

from .regression import SPLITS, Examples


@dataclass(frozen=True)
class FeatureCache:
    """A folder of feature arrays, one per (model, texts as read, kind), named by their digest."""

    folder: Path
    kind: FeatureKind = FINAL_CELL

    def examples(self, model: TextModel, sets: Sequence[LabelledSet]) -> list[Examples]:
        """Return the features and labels of train, val and perhaps test."""
        return [
            Examples(self.features(model, list(map(model.encode, part.texts)), name), part.labels)
            for name, part in zip(SPLITS, sets, strict=False)
        ]

    def features(self, model: TextModel, sequences: Sequence[np.ndarray], name: str) -> np.ndarray:
        """Return float32 [N, F], the features of each text, in the texts' order.

        sequences: the texts as the model reads them, tokens [n] each. If another process is
        computing them, this waits for it. Raises InputError for a file of the cache that is
        damaged.
        """
        wanted = TextFeatures(model, sequences, self.kind)
        path = self.folder / f"{wanted.digest()[:24]}.npy"
        lock = set_aside(path, "lock")
        if not path.is_file() or lock.exists():  # by a kill
            make_folder(self.folder)
            busy = f"{path}: another command is computing these features; waiting for them"
            with one_at_a_time(lock, busy, waits=True):
                if not path.is_file():
                    with ProgressBar(name, wanted.tokens) as progress:
                        write_features(path, wanted.shape, [wanted], progress.advance)
        features = np.array(mapped(path, wanted.shape))
        if not all(np.isfinite(row).all() for row in features):
            raise InputError(f"{path}: holds NaN or infinity; {REMEDY}")
        return features
