"""Reads heads of formats 1 to 7: regressions, fine-tuned heads, heads that predict stars.

1: a regression between two classes; 2: between more; 3: fine-tuned heads; 4: a regression on pooled
states; 5: one to five stars; 6: such a head with n-grams; 7: such a head that answers neutral.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..bounds import Bound, PositiveFloat, Probability, fill
from ..engine.kinds import Pooling, check_poolings
from ..engine.request import Familiarity
from ..errors import InputError, checked_whole
from ..files.shipped import CLASSIFIER_FILE as CONFIG_FILE
from ..files.tensors import read_arrays, read_floats
from .head import THRESHOLD, Head, HeadUnit, check_class_names, checked_between
from .ngrams import LARGEST, MOST_BUCKETS
from .steps import (
    STAR_POOLING,
    STAR_STATE,
    STAR_WEIGHTS,
    Affine,
    Calibration,
    Neutral,
    Ngrams,
    OneVsRest,
    Sigmoid,
    Softmax,
    Step,
    star_steps,
    tuned_steps,
)

_WEIGHTS_FILE, NGRAMS_FILE = "classifier.safetensors", "ngrams.safetensors"
_HEADS, _POOLED, _STARS, _NGRAMS, _NEUTRAL = 3, 4, 5, 6, 7  # format versions
_LINKS: dict[str, type[Step]] = {"one_vs_rest": OneVsRest, "softmax": Softmax}
# Below these limits any description can be checked against its file.
_MOST_UNITS = 1 << 20
_MOST_LAYERS = _MOST_HEADS = 1 << 10


def load_old(folder: Path, content: Mapping[str, Any], hidden_size: int) -> Head:
    """Return the head that a folder of an earlier format holds.

    content: of its `classifier.json`. Raises InputError if it cannot be read.
    """
    version = content["format_version"]
    read, what = _regression, "two classes" if version == 1 else "classes"
    if version == _HEADS:
        read, what = _tuned, "heads"
    elif version >= _STARS:
        read, what = _stars, "a head that predicts one to five stars"
    place = f"{folder / CONFIG_FILE}: not a description of {what}"
    parts = read(folder, content, hidden_size, place)
    try:
        return Head(**parts)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


@dataclass(frozen=True)
class _Regression:
    """What `classifier.json` says of a logistic regression."""

    OTHER_KEYS: ClassVar = True
    format_version: int
    classes: tuple[str, ...]
    model_digest: str
    neuron: HeadUnit
    pooling: tuple[Pooling, ...]
    state: Literal["cell"] = "cell"
    link: Literal["one_vs_rest", "softmax"] = "one_vs_rest"
    threshold: Probability = THRESHOLD

    def __post_init__(self) -> None:
        check_class_names(self.classes)
        count = len(self.classes)
        if self.format_version not in (1 if count == 2 else 2, _POOLED):
            raise InputError(f"it has {count} of them")
        check_poolings(self.pooling)


def _regression(
    folder: Path, content: Mapping[str, Any], hidden_size: int, place: str
) -> dict[str, Any]:
    if content["format_version"] != _POOLED:  # which alone knew several ways
        content = {**content, "pooling": ["last"]}
    described = fill(_Regression, content, place)
    rows = () if len(described.classes) == 2 else (len(described.classes),)
    shape = (*rows, hidden_size * len(described.pooling))
    tensors = read_floats(
        folder / _WEIGHTS_FILE, {"coefficients": shape, "intercept": rows or (1,)}
    )
    affine = Affine(np.atleast_2d(tensors["coefficients"]), tensors["intercept"])
    return {
        "classes": described.classes,
        "steps": (affine, _LINKS[described.link]() if rows else Sigmoid()),
        "model_digest": described.model_digest,
        "pooling": described.pooling,
        "thresholds": None if rows else (float(described.threshold),),
        "unit": described.neuron,
    }


@dataclass(frozen=True, kw_only=True)
class _Network:
    """The layers between features and classes."""

    OTHER_KEYS: ClassVar = True
    hidden_layers: tuple[Annotated[int, Bound(min=1, max=_MOST_UNITS)], ...] = ()
    heads_per_class: Annotated[int, Bound(min=1, max=_MOST_HEADS)] = 1

    def __post_init__(self) -> None:
        checked_whole("the number of hidden layers", len(self.hidden_layers), 0, _MOST_LAYERS)

    def load(self, path: Path, features: int, classes: int) -> dict[str, np.ndarray]:
        sizes = [features, *self.hidden_layers]
        shapes: dict[str, tuple[int, ...]] = {"center": (features,), "scale": (features,)}
        for index, (columns, rows) in enumerate(pairwise(sizes)):
            shapes[f"hidden.{index}.weight"] = (rows, columns)
            shapes[f"hidden.{index}.bias"] = (rows,)
            shapes[f"activations.{index}.weight"] = (1,)
        last = self.heads_per_class * classes
        shapes |= {"heads.weight": (last, sizes[-1]), "heads.bias": (last,)}
        return read_floats(path, shapes)


@dataclass(frozen=True)
class _Tuned:
    """What `classifier.json` says of fine-tuned heads."""

    OTHER_KEYS: ClassVar = True
    kind: Literal["heads"]
    state: Literal["cell"]
    classes: tuple[str, ...]
    exclusive: bool
    thresholds: tuple[Probability, ...]
    heads: _Network
    model_digest: str

    def __post_init__(self) -> None:
        check_class_names(self.classes)


def _tuned(
    folder: Path, content: Mapping[str, Any], hidden_size: int, place: str
) -> dict[str, Any]:
    described = fill(_Tuned, content, place)
    count = len(described.classes)
    arrays = described.heads.load(folder / _WEIGHTS_FILE, hidden_size, count)
    return {
        "classes": described.classes,
        "steps": tuned_steps(arrays, count, exclusive=described.exclusive),
        "model_digest": described.model_digest,
        "several_labels": not described.exclusive,
        "thresholds": described.thresholds,
    }


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A slope and an offset of log-odds."""

    slope: PositiveFloat = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class _NgramsDescription:
    """A bag of n-grams."""

    OTHER_KEYS: ClassVar = True
    buckets: Annotated[int, Bound(min=1, max=MOST_BUCKETS)]
    scale: Annotated[float, Bound(above=0, max=LARGEST)]


@dataclass(frozen=True)
class _Stars:
    """What `classifier.json` says of a head that predicts stars."""

    OTHER_KEYS: ClassVar = True
    kind: Literal["stars"]
    state: str
    pooling: tuple[Pooling, ...]
    classes: tuple[str, str]
    heads: _Network
    calibration: _Line
    familiarity: Familiarity | None
    unsure: tuple[Probability, Probability]
    threshold: Probability
    model_digest: str
    neutral: _Line | None = None

    def __post_init__(self) -> None:
        if (self.state, self.pooling) != (STAR_STATE, STAR_POOLING):
            raise InputError(f"state and pooling are {self.state!r} and {self.pooling}")
        if self.heads.hidden_layers:
            raise InputError("a head that predicts stars must be linear")


def _stars(
    folder: Path, content: Mapping[str, Any], hidden_size: int, place: str
) -> dict[str, Any]:
    described = fill(_Stars, content, place)
    size = hidden_size * len(described.pooling)
    arrays = described.heads.load(folder / _WEIGHTS_FILE, size, len(STAR_WEIGHTS))
    version, ngrams = content["format_version"], None
    if version == _NGRAMS or (version == _NEUTRAL and "ngrams" in content):
        ngrams = _ngrams(folder / NGRAMS_FILE, content.get("ngrams"), place)
    line, middle = described.calibration, described.neutral
    neutral = None if middle is None else Neutral(2, middle.slope, middle.offset)
    return {
        "classes": described.classes,
        "steps": star_steps(arrays, Calibration(line.slope, line.offset), ngrams, neutral),
        "model_digest": described.model_digest,
        "state": STAR_STATE,
        "pooling": described.pooling,
        "thresholds": (float(described.threshold),),
        "doubt": checked_between(described.unsure),
        "familiarity": described.familiarity,
    }


def _ngrams(path: Path, description: Any, place: str) -> Ngrams:
    described = fill(_NgramsDescription, description, place, "ngrams.")
    weights = read_arrays(path, {"weights": (described.buckets,)})["weights"]
    if weights.dtype != np.int8:
        raise InputError(f"{path}: tensor weights holds {weights.dtype}, not 8-bit integers")
    return Ngrams(weights, described.scale, STAR_WEIGHTS)
