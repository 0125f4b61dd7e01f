"""A fitted classifier on a model's features: weights as safetensors, the rest as JSON."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ..bounds import NonNegativeInt, Probability, check_bounds, fill
from ..errors import InputError
from ..files.shipped import CLASSIFIER_FILE as CONFIG_FILE
from ..files.storage import check_format_version, read_json, write_json
from ..files.weights import check_header, load_tensors, save_tensors
from ..inference.features import FeatureKind, Pooling, check_poolings

# 1: two classes; 2: more; 3: fine-tuned heads; 4: 1 or 2 on pooled states; 5: a head that
# predicts one to five stars; 6: such a head with a bag of n-grams; 7: one that answers neutral
FORMAT_VERSION = 7
POOLED_VERSION = 4
WEIGHTS_FILE = "classifier.safetensors"
AREAS_FILE = "areas.safetensors"
NGRAMS_FILE = "ngrams.safetensors"
CLASSIFIER_FILES = (WEIGHTS_FILE, CONFIG_FILE, AREAS_FILE, NGRAMS_FILE)
FOLDER = "classifier"  # inside a model directory: the one that belongs to the model
TRANSFER_FOLDER = "transfer"  # inside a run directory: where the README's commands write results
THRESHOLD = 0.5
UNSURE = (0.4, 0.6)  # range of the positive class's probability around that threshold

Link = Literal["one_vs_rest", "softmax"]


@dataclass(frozen=True, kw_only=True)
class Familiarity:
    """The most bits that a model needs for a text of the kind that it was trained on."""

    bits_per_character: float
    """For each byte of the encoded text."""
    bits: float
    """Added to that for a text of any length, since the cost of a short text varies widely."""

    def __post_init__(self) -> None:
        check_bounds(self, "familiarity.")

    def admits(self, bits: np.ndarray, characters: np.ndarray) -> np.ndarray:
        """Return bool [N] from the costs of texts, bits [N], and their lengths, bytes [N]."""
        return bits <= self.bits_per_character * characters + self.bits


@dataclass(frozen=True)
class NeuronDescription:
    """What `classifier.json` says of the unit of largest weight."""

    OTHER_KEYS: ClassVar = True
    index: NonNegativeInt
    polarity: Literal[1, -1]
    pooling: Pooling = "last"


@dataclass(frozen=True)
class LogisticDescription:
    """What `classifier.json` says of a logistic regression."""

    OTHER_KEYS: ClassVar = True
    format_version: int
    classes: tuple[str, ...]
    model_digest: str
    neuron: NeuronDescription
    state: Literal["cell"] = "cell"
    link: Link = "one_vs_rest"
    threshold: Probability = THRESHOLD
    pooling: tuple[Pooling, ...] | None = None

    def __post_init__(self) -> None:
        check_class_names(self.classes)
        count = len(self.classes)
        if self.format_version not in (1 if count == 2 else 2, POOLED_VERSION):
            raise InputError(f"it has {count} of them")
        if self.format_version == POOLED_VERSION and self.pooling is None:
            raise InputError("pooling is missing")
        check_poolings(self.poolings)
        if self.neuron.pooling not in self.poolings:
            raise InputError(
                f"neuron.pooling is {self.neuron.pooling!r}; it must be one of {self.poolings}"
            )

    @property
    def poolings(self) -> tuple[Pooling, ...]:
        """How states become features; versions before POOLED_VERSION knew one way."""
        is_pooled = self.format_version == POOLED_VERSION and self.pooling
        return self.pooling if self.pooling and is_pooled else ("last",)


@dataclass(frozen=True)
class Classifier:
    """Logistic regression between C classes, on F features of the last layer's cell state.

    F = H times the number of poolings, whose features are concatenated.
    """

    coefficients: np.ndarray  # float32 [F]; of more than two classes [C, F]
    intercept: float | np.ndarray  # of more than two classes float32 [C]
    classes: tuple[str, ...]  # of two: the negative one, the positive one
    neuron: int  # the unit of largest weight, or another that was named, 0 to H - 1
    polarity: int  # 1 where a high value of the unit means the last class, else -1
    model_digest: str  # of the model whose features it uses
    threshold: float = THRESHOLD  # of the positive one of two classes
    link: Link = "one_vs_rest"  # how scores of more than two classes become probabilities
    pooling: tuple[Pooling, ...] = ("last",)  # how the states after every byte become features
    neuron_pooling: Pooling = "last"  # the one in which the unit has that weight

    familiarity = None  # not measured
    neutral = None  # no such answer

    @property
    def is_binary(self) -> bool:
        return len(self.classes) == 2

    @property
    def is_multilabel(self) -> bool:
        """Whether a text may have several classes. Never here."""
        return False

    @property
    def kind(self) -> FeatureKind:
        return FeatureKind(pooling=self.pooling)

    @property
    def influence(self) -> np.ndarray:
        """Weight of each unit, summed over poolings, for each class (of two, the second): [P, H].

        A classifier with heads also weighs units by their standard deviation, unknown here.
        """
        rows = np.atleast_2d(self.coefficients)
        return rows.reshape(len(rows), len(self.pooling), -1).sum(1)

    @property
    def neuron_column(self) -> int:
        """The feature of `neuron`, 0 to F - 1."""
        width = self.coefficients.shape[-1] // len(self.pooling)
        return self.pooling.index(self.neuron_pooling) * width + self.neuron

    @property
    def unsure(self) -> tuple[float, float]:
        """The default range around the threshold in which a text counts as unsure."""
        return moved(UNSURE, self.threshold - THRESHOLD)

    def with_threshold(self, threshold: float) -> "Classifier":
        return replace(self, threshold=threshold)

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return a score per row of features [N, F], float64: log-odds [N], or [N, C]."""
        return features.astype(np.float64) @ self.coefficients.T + self.intercept

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return probabilities, float64: [N] of the positive one of two classes, else [N, C]."""
        return self.probabilities_of(self.decide(features))

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return what `probabilities` returns, from the scores of `decide`."""
        if self.is_binary or self.link == "one_vs_rest":
            log_odds = scores.clip(-700, 700)  # where exp neither overflows nor is zero
            alone = 1 / (1 + np.exp(-log_odds))
            return alone if self.is_binary else alone / alone.sum(1, keepdims=True)
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def choose(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the chosen class, int64 [N], for probabilities [N] or [N, C]."""
        if self.is_binary:
            return (probabilities > self.threshold).astype(np.int64)
        return probabilities.argmax(1)


def save_classifier(
    folder: Path, classifier: Classifier, origin: Mapping[str, Any] | None = None
) -> None:
    """Write a classifier, each file whole; origin: how it was fitted, kept as it is."""
    tensors = {
        "coefficients": torch.from_numpy(classifier.coefficients.astype(np.float32)),
        "intercept": torch.from_numpy(np.atleast_1d(classifier.intercept).astype(np.float32)),
    }
    description: dict[str, Any] = {
        "format_version": 1 if classifier.is_binary else 2,
        "classes": list(classifier.classes),
        "state": "cell",
        "model_digest": classifier.model_digest,
        "neuron": {"index": classifier.neuron, "polarity": classifier.polarity},
    }
    if classifier.pooling != ("last",):
        description["format_version"] = POOLED_VERSION
        description["pooling"] = list(classifier.pooling)
        description["neuron"]["pooling"] = classifier.neuron_pooling
    if not classifier.is_binary:
        description["link"] = classifier.link
    elif classifier.threshold != THRESHOLD:
        description["threshold"] = classifier.threshold
    write_files(folder, tensors, description, origin)


def write_files(
    folder: Path,
    tensors: Mapping[str, torch.Tensor],
    description: Mapping[str, Any],
    origin: Mapping[str, Any] | None = None,
) -> None:
    """Write a classifier's weights and description, each file whole; origin: how it was made."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / WEIGHTS_FILE, tensors)
    extra = {} if origin is None else {"origin": dict(origin)}
    write_json(folder / CONFIG_FILE, {**description, **extra})


def read_description(path: Path, newest: int) -> dict[str, Any]:
    """Read a classifier's description; InputError if its format version is above `newest`."""
    description = read_json(path)
    check_format_version(description, newest, path)
    return description


def load_classifier(folder: Path, hidden_size: int) -> Classifier:
    """Read a classifier for a model of `hidden_size`; InputError if it cannot be read."""
    path = folder / CONFIG_FILE
    content = read_description(path, FORMAT_VERSION)
    kind = "two classes" if content["format_version"] == 1 else "classes"
    place = f"{path}: not a description of {kind}"
    described = fill(LogisticDescription, content, place)
    neuron = described.neuron
    if neuron.index >= hidden_size:
        raise InputError(f"{place}: neuron.index is {neuron.index}; it must be below {hidden_size}")
    size = hidden_size * len(described.poolings)
    weights = _load_weights(folder / WEIGHTS_FILE, len(described.classes), size)
    return Classifier(
        *(*weights, described.classes, neuron.index, neuron.polarity, described.model_digest),
        threshold=float(described.threshold),
        link=described.link,
        pooling=described.poolings,
        neuron_pooling=neuron.pooling,
    )


def _load_weights(path: Path, classes: int, size: int) -> tuple[np.ndarray, Any]:
    rows = () if classes == 2 else (classes,)
    check_header(path, {"coefficients": (*rows, size), "intercept": rows or (1,)})
    tensors = load_tensors(path)
    intercept = tensors["intercept"].float().numpy()
    return tensors["coefficients"].float().numpy(), intercept if rows else float(intercept[0])


def checked_threshold(value: Any, name: str = "threshold") -> float:
    """Return a threshold for a probability; InputError, with its name, if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:  # type: ignore[operator]
        raise InputError(f"{name} is {value!r}; it must be a number from 0 to 1")
    return float(value)


def checked_between(unsure: Any) -> tuple[float, float]:
    """Return two probabilities, the lower one first; InputError if they are anything else."""
    if not isinstance(unsure, Collection) or len(unsure) != 2:
        raise InputError(f"unsure is {unsure!r}; it must be two numbers from 0 to 1")
    low, high = (checked_threshold(end, "an end of unsure") for end in unsure)
    if low > high:
        raise InputError(f"unsure is {low} to {high}; the lower one comes first")
    return low, high


def moved(unsure: tuple[float, float], by: float) -> tuple[float, float]:
    """Return the range `unsure`, shifted as its threshold was and kept within 0 and 1."""
    low, high = (min(max(end + by, 0.0), 1.0) for end in unsure)
    return low, high


def check_class_names(classes: tuple[str, ...]) -> None:
    """Raise InputError unless there are two or more, all different."""
    if len(set(classes)) != len(classes):
        raise InputError("classes must be a list of different names")
    if len(classes) < 2:
        raise InputError(f"it has {len(classes)} of them")
