"""A probe: how well a model, during training, separates labelled texts."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from data_utils.labelled import LabelledSet, read_labelled_sets
from model.errors import InputError
from model.inference.features import FeatureKind, features_in_order
from model.layers.language_model import LanguageModel
from model.text.profiles import TextProfile
from model.text.tokenizer import Tokenizer

# The mean is better early in training; the papers take the last state.
KIND = FeatureKind(pooling=("mean", "last"))
PENALTY = 0.1  # scikit-learn's C, fixed: choosing it would take time at every evaluation
SEED = 0


Pair = tuple[np.ndarray, np.ndarray]  # features of train and of val, [N, H] each


@dataclass(frozen=True)
class Findings:
    """The result of one probe."""

    accuracy: float  # of all units' means over the texts, on val
    last_accuracy: float  # of all units' last values
    unit: int  # whose mean has the largest correlation with the label, on train
    unit_accuracy: float  # of that unit alone, on val

    def row(self) -> dict[str, float]:
        """Return what to add to a row of metrics."""
        return {
            "probe_accuracy": self.accuracy,
            "probe_last_accuracy": self.last_accuracy,
            "probe_unit": self.unit,
            "probe_unit_accuracy": self.unit_accuracy,
        }


class Probe:
    """Two sets of labelled texts, encoded once and measured at every evaluation."""

    def __init__(
        self, train: LabelledSet, val: LabelledSet, profile: TextProfile, tokenizer: Tokenizer
    ):
        self.train, self.val = train, val
        self.sequences = [
            [tokenizer.encode(profile.encode(text)) for text in part.texts] for part in (train, val)
        ]

    @classmethod
    def read(
        cls, train: Path, val: Path, most_texts: int, profile: TextProfile, tokenizer: Tokenizer
    ) -> "Probe":
        """Read two files of labelled texts; from each draw at most `most_texts`, by a fixed seed.

        Raises InputError unless there are two classes, both of them in train.
        """
        parts = read_labelled_sets([train, val], blank=False)
        if len(parts[0].classes) != 2:
            raise InputError(f"{train}: has {len(parts[0].classes)} classes; a probe needs two")
        fitted_on, scored_on = (part.drawn(most_texts, SEED) for part in parts)
        if len(np.unique(fitted_on.labels)) < 2 or not len(scored_on.labels):
            raise InputError(f"{train}, {val}: too few texts for a probe of two classes")
        return cls(fitted_on, scored_on, profile, tokenizer)

    def measure(
        self, model: LanguageModel, between: Callable[[], object] = lambda: None
    ) -> Findings:
        """Return the findings for the model's features.

        between: called after each part of the work: some bytes of a batch of texts, a regression.
        """
        train, val = (
            features_in_order(model, sequences, kind=KIND, advance=lambda _: between())
            for sequences in self.sequences
        )
        mean, last = zip(np.split(train, 2, axis=1), np.split(val, 2, axis=1), strict=True)
        return self.examine(mean, last, between)

    def examine(
        self, mean: Pair, last: Pair, between: Callable[[], object] = lambda: None
    ) -> Findings:
        """Fit on the features of train; return the results on those of val.

        mean, last: of each unit over the texts, and after them, of train and of val, [N, H] each.
        between: as of `measure`.
        """
        train, val = standardised(*mean)
        signs = 2 * self.train.labels - 1.0
        correlation = (signs - signs.mean()) @ train / len(train)  # [H]
        unit = int(np.abs(correlation).argmax())
        accuracy = self._accuracy(train, val)
        between()
        last_accuracy = self._accuracy(*standardised(*last))
        between()
        return Findings(
            accuracy=accuracy,
            last_accuracy=last_accuracy,
            unit=unit,
            unit_accuracy=self._accuracy(train[:, [unit]], val[:, [unit]]),
        )

    def _accuracy(self, train: np.ndarray, val: np.ndarray) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # accurate enough for a probe
            fitted = LogisticRegression(C=PENALTY, max_iter=200).fit(train, self.train.labels)
        return float(fitted.score(val, self.val.labels))


def standardised(train: np.ndarray, val: np.ndarray) -> Pair:
    """Return both with the mean 0 and the variance 1 that each feature then has on train."""
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(val)
