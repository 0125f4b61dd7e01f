"""A probe: how well a model, during training, separates labelled texts."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from data_utils.labelled import LabelledSet, read_labelled_sets
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import TextProfile
from mlstm_sentiment.text.tokenizer import Tokenizer
from model.inference.features import features_in_order
from model.layers.language_model import LanguageModel

# The mean is better early in training; the papers use the last state.
_KIND = FeatureKind(pooling=("mean", "last"))
_PENALTY = 0.1  # scikit-learn's C, fixed: choosing it would take time at every evaluation
_SEED = 0


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
        fitted_on, scored_on = (part.drawn(most_texts, _SEED) for part in parts)
        if len(np.unique(fitted_on.labels)) < 2 or not len(scored_on.labels):
            raise InputError(f"{train}, {val}: too few texts for a probe of two classes")
        return cls(fitted_on, scored_on, profile, tokenizer)

    def measure(
        self, model: LanguageModel, between: Callable[[], object] = lambda: None
    ) -> dict[str, float]:
        """Return what to add to a row of metrics: accuracies on val.

        One regression uses all units' means over the texts, one all units' last values, and one
        only the unit whose mean correlates most with the label on train. between: called after each
        part of the work, such as some bytes of a batch of texts, or a regression.
        """
        train, val = (
            features_in_order(model, sequences, kind=_KIND, advance=lambda _: between())
            for sequences in self.sequences
        )
        scaler = StandardScaler().fit(train)  # mean 0 and variance 1 of each feature on train
        train, last = np.split(scaler.transform(train), 2, axis=1)
        val, last_of_val = np.split(scaler.transform(val), 2, axis=1)
        signs = 2 * self.train.labels - 1.0
        correlation = (signs - signs.mean()) @ train / len(train)  # [H]
        unit = int(np.abs(correlation).argmax())
        row: dict[str, float] = {"probe_accuracy": self._accuracy(train, val)}
        between()
        row["probe_last_accuracy"] = self._accuracy(last, last_of_val)
        between()
        alone = self._accuracy(train[:, [unit]], val[:, [unit]])
        return row | {"probe_unit": unit, "probe_unit_accuracy": alone}

    def _accuracy(self, train: np.ndarray, val: np.ndarray) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # accurate enough for a probe
            fitted = LogisticRegression(C=_PENALTY, max_iter=200).fit(train, self.train.labels)
        return float(fitted.score(val, self.val.labels))
