"""A model with the classifier fitted on it: texts to labels, probabilities, neuron values."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import InputError
from ..features import features_in_order, read_in_order
from ..files.weights import LoadedModel, load_model
from ..text.profiles import checked_texts
from .classifier import CONFIG_FILE, FOLDER, checked_between, checked_threshold
from .fitted import Fitted, find_classifier, load_fitted
from .stars import StarsClassifier

SHORTEST = 2  # bytes: fewer are no text


class Verdicts(NamedTuple):
    """What was found about N texts in one reading."""

    choices: np.ndarray  # int64 [N], indices into the classes; multi-label [N, C], 0 or 1
    probabilities: np.ndarray  # float64 [N, C]
    neuron: np.ndarray | None  # float32 [N]; of fine-tuned heads None
    stars: np.ndarray | None  # float64 [N], expected, where the classifier tells stars
    bits_per_character: np.ndarray  # float64 [N], of the text as it is read; without bytes NaN
    unsure: np.ndarray | None  # bool [N], of two classes: between the two thresholds
    unfamiliar: np.ndarray  # bool [N]: too short, or unlike what the model has read


class SentimentClassifier:
    """Logistic regression, or fine-tuned heads, on what a model has read, in fp32 on the CPU.

    Texts are a list of strings; results are in their order, and independent of `batch_size`.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        classifier: Fitted,
        *,
        unsure: tuple[float, float] | None = None,
        batch_size: int = 128,
        advance: Callable[[int], object] | None = None,
    ):
        self.loaded = loaded
        self.classifier = classifier
        self.unsure = classifier.unsure if unsure is None else checked_between(unsure)
        self.batch_size = batch_size
        self.advance = advance
        with torch.inference_mode():
            self._weights = loaded.model.fold()  # once: a stream comes a few texts at a time

    @classmethod
    def from_pretrained(
        cls,
        name_or_dir: str | Path = "default",
        classifier: str | Path | None = None,
        *,
        threshold: float | None = None,
        unsure: tuple[float, float] | None = None,
        batch_size: int = 128,
        device: str = "cpu",
        advance: Callable[[int], object] | None = None,
    ) -> "SentimentClassifier":
        """Load a model and a classifier.

        classifier: the folder that scripts/transfer.py wrote, or its `classifier/`; absent, the one
        that travels with the model, or a run's own `transfer/`.
        threshold: instead of the classifier's own, for two classes.
        unsure: instead of the classifier's own, for two classes: a text whose probability of the
            positive one lies between these two, ends included, is unsure.
        device: where the model runs, "cpu" or "cuda".
        advance: told how many bytes have been read, for a progress bar.
        Raises InputError where there is no classifier, or one of another model.
        """
        loaded = load_model(name_or_dir, compute_dtype=torch.float32, device=device)
        folder = find_classifier(loaded, classifier)
        if folder is None:
            raise InputError(
                f"{classifier or loaded.folder}: no classifier in it ({FOLDER}/{CONFIG_FILE}); fit "
                f"one and name it with --classifier: {_how_to_fit(loaded)}"
            )
        mend = f"name that model, or fit one on this: {_how_to_fit(loaded)}"
        found = load_fitted(loaded, folder, mend)
        for name, value in (("threshold", threshold), ("unsure", unsure)):
            if value is not None and not found.is_binary:
                how = "each has its own" if found.is_multilabel else "the likeliest is taken"
                raise InputError(
                    f"{name} {value}: {folder} tells {len(found.classes)} classes, {how}; "
                    "a threshold is for two"
                )
        if threshold is not None:
            found = found.with_threshold(checked_threshold(threshold))
        return cls(loaded, found, unsure=unsure, batch_size=batch_size, advance=advance)

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, in the order of the columns of `predict_proba`."""
        return self.classifier.classes

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """Return a label per text, str [N]; of several labels each, int64 [N, C], 0 or 1."""
        probabilities = self.classifier.probabilities(self._features(texts))
        choices = self.classifier.choose(probabilities)
        return choices if self.classifier.is_multilabel else np.array(self.classes)[choices]

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Return the probability of each class, float64 [N, C].

        A row sums to 1 unless a text may have several labels.
        """
        return self._of_each_class(self.classifier.probabilities(self._features(texts)))

    def decision_function(self, texts: Iterable[str]) -> np.ndarray:
        """Return scores, float64: log-odds [N] of the second of two classes, or [N, C]."""
        return self.classifier.decide(self._features(texts))

    def neuron_values(self, texts: Iterable[str]) -> np.ndarray:
        """Return the value of the unit of largest weight after each text, float32 [N].

        Raises InputError for fine-tuned heads, which lean on no single unit.
        """
        column = self.classifier.neuron_column
        if column is None:
            raise InputError(f"{self.loaded.folder}: fine-tuned heads lean on no single unit")
        return self._features(texts)[:, column]

    def read(self, texts: Iterable[str]) -> Verdicts:
        """Return all of it from reading the texts once."""
        given = checked_texts(texts)
        features, bits = read_in_order(
            self.loaded.model, list(map(self.loaded.tokens, given)), **self._options()
        )
        characters = np.array([len(self.loaded.profile.encode(text)) for text in given])
        probabilities = self.classifier.probabilities(features)
        column = self.classifier.neuron_column
        return Verdicts(
            choices=self.classifier.choose(probabilities),
            probabilities=self._of_each_class(probabilities),
            neuron=None if column is None else features[:, column],
            stars=self._stars(features),
            bits_per_character=np.where(characters > 0, bits / characters.clip(min=1), np.nan),
            unsure=self._unsure(probabilities),
            unfamiliar=self._unfamiliar(given, bits, characters),
        )

    def _stars(self, features: np.ndarray) -> np.ndarray | None:
        if not isinstance(self.classifier, StarsClassifier):
            return None
        return self.classifier.stars(features)

    def _of_each_class(self, probabilities: np.ndarray) -> np.ndarray:
        if not self.classifier.is_binary:
            return probabilities
        return np.stack([1 - probabilities, probabilities], axis=1)

    def _unsure(self, probabilities: np.ndarray) -> np.ndarray | None:
        if not self.classifier.is_binary:
            return None
        low, high = self.unsure
        return (low <= probabilities) & (probabilities <= high)

    def _unfamiliar(self, texts: list[str], bits: np.ndarray, characters: np.ndarray) -> np.ndarray:
        clean = self.loaded.profile.clean
        sizes = np.array([len(clean(text).encode(errors="replace")) for text in texts])
        familiarity = self.classifier.familiarity
        if familiarity is None:
            return sizes < SHORTEST
        return (sizes < SHORTEST) | ~familiarity.admits(bits, characters)

    def _features(self, texts: Iterable[str]) -> np.ndarray:
        sequences = [self.loaded.tokens(text) for text in checked_texts(texts)]
        return features_in_order(self.loaded.model, sequences, **self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "kind": self.classifier.kind,
            "batch_size": self.batch_size,
            "weights": self._weights,
            "advance": self.advance,
        }


def _how_to_fit(loaded: LoadedModel) -> str:
    return (
        f"python scripts/transfer.py --model {loaded.folder} --train F --val F --test F "
        f"--output DIR writes DIR/{FOLDER}"
    )
