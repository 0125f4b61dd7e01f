"""Fine-tuned heads as a classifier: labels and probabilities from features, on disk and back.

It is stored in `classifier/` of the model that was fine-tuned with it: weights as safetensors, the
rest as JSON, format version 3.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch

from ..bounds import Probability, fill
from ..errors import InputError
from ..files.weights import check_header, load_tensors
from ..inference.features import FeatureKind
from .classifier import (
    CONFIG_FILE,
    THRESHOLD,
    UNSURE,
    WEIGHTS_FILE,
    check_class_names,
    moved,
    read_description,
    write_files,
)
from .heads import Heads, HeadsConfig, class_probabilities
from .influence import SeveralUnits, influence_of_heads, positive_weights_of

FORMAT_VERSION = 3  # 1 and 2 are logistic regressions
KIND = "heads"
SMALLEST_PROBABILITY = 1e-300  # whose log-odds are still finite


@dataclass(frozen=True)
class HeadsDescription:
    """What `classifier.json` says of fine-tuned heads."""

    OTHER_KEYS: ClassVar = True
    kind: Literal["heads"]
    state: Literal["cell"]
    classes: tuple[str, ...]
    exclusive: bool
    thresholds: tuple[Probability, ...]
    heads: HeadsConfig
    model_digest: str

    def __post_init__(self) -> None:
        check_class_names(self.classes)
        count = len(self.classes)
        if len(self.thresholds) != len(untuned_thresholds(count, exclusive=self.exclusive)):
            raise InputError(f"{len(self.thresholds)} thresholds for {count} classes")


@dataclass(frozen=True)
class FineTuned(SeveralUnits):
    """Heads between C classes, on the final cell state of the model they were tuned with."""

    heads: Heads  # on the CPU
    classes: tuple[str, ...]  # of two exclusive ones: the negative one, the positive one
    exclusive: bool  # a text has exactly one of the classes; else any number of them
    thresholds: tuple[float, ...]  # exclusive: of the positive one of two; else of every class
    model_digest: str

    familiarity = None  # not measured
    neutral = None  # no such answer
    kind = FeatureKind()

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes that exclude each other."""
        return self.exclusive and len(self.classes) == 2

    @property
    def is_multilabel(self) -> bool:
        """Whether a text may have any number of the classes."""
        return not self.exclusive

    @property
    def influence(self) -> np.ndarray:
        """How much a standard deviation of each unit moves each class (of two, the second)."""
        weights = positive_weights_of(len(self.classes), exclusive=self.exclusive)
        return influence_of_heads(self.heads, weights, exclusive=self.exclusive)

    @property
    def threshold(self) -> float:
        """The threshold of the positive one of two classes."""
        return self.thresholds[0] if self.is_binary else THRESHOLD

    @property
    def unsure(self) -> tuple[float, float]:
        """The default range around the threshold in which a text counts as unsure."""
        return moved(UNSURE, self.threshold - THRESHOLD)

    def with_threshold(self, threshold: float) -> "FineTuned":
        """Return the same heads with another threshold of the positive one of two classes."""
        return replace(self, thresholds=(threshold,))

    @torch.inference_mode()
    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return float64 [N] of the positive one of two exclusive classes, else [N, C]."""
        logits = self.heads.eval()(torch.from_numpy(features))
        probabilities = class_probabilities(logits, exclusive=self.exclusive).numpy()
        return probabilities[:, 1] if self.is_binary else probabilities

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return scores, float64: log-odds [N] or [N, C] of what `probabilities` returns."""
        p = self.probabilities(features).clip(SMALLEST_PROBABILITY, 1 - np.finfo(float).epsneg)
        return np.log(p) - np.log1p(-p)

    def choose(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the class, int64 [N]; for several classes a text 0 or 1, int64 [N, C]."""
        if self.exclusive and len(self.classes) > 2:
            return probabilities.argmax(1)
        thresholds = self.threshold if self.is_binary else np.array(self.thresholds)
        return (probabilities > thresholds).astype(np.int64)


def untuned_thresholds(classes: int, *, exclusive: bool) -> tuple[float, ...]:
    """Return a threshold of one half for each class that has one."""
    if not exclusive:
        return (THRESHOLD,) * classes
    return (THRESHOLD,) if classes == 2 else ()


def save_fine_tuned(folder: Path, tuned: FineTuned) -> None:
    """Write heads; each file is replaced whole."""
    description = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "classes": list(tuned.classes),
        "exclusive": tuned.exclusive,
        "thresholds": list(tuned.thresholds),
        "heads": asdict(tuned.heads.config),
        "state": "cell",
        "model_digest": tuned.model_digest,
    }
    write_files(folder, tuned.heads.state_dict(), description)


def load_heads(path: Path, config: HeadsConfig, features: int, classes: int) -> Heads:
    """Read the weights of heads on `features` features; InputError if they are damaged."""
    with torch.device("meta"):
        heads = Heads(config, features, classes)
    check_header(path, {name: tuple(t.shape) for name, t in heads.state_dict().items()})
    tensors = load_tensors(path)
    if not bool((tensors["scale"] > 0).all()):
        raise InputError(
            f"{path}: scale, which divides the features, has a value that is not above zero"
        )
    # to_empty would import sympy, which takes longer than all the rest.
    heads.load_state_dict({name: t.float() for name, t in tensors.items()}, assign=True)
    return heads.eval()


def load_fine_tuned(folder: Path, hidden_size: int) -> FineTuned:
    """Read heads for features of `hidden_size`; InputError if they cannot be read."""
    path = folder / CONFIG_FILE
    content = read_description(path, FORMAT_VERSION)
    of = fill(HeadsDescription, content, f"{path}: not a description of heads")
    heads = load_heads(folder / WEIGHTS_FILE, of.heads, hidden_size, len(of.classes))
    return FineTuned(heads, of.classes, of.exclusive, of.thresholds, of.model_digest)
