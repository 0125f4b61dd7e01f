"""A head that predicts one to five stars as a classifier of how positive a text is.

It is stored in `classifier/` of the model that learned with it: weights as safetensors, the rest as
JSON, format version 5, or 6 with a bag of n-grams, or 7 if it also answers neutral.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ..bounds import PositiveFloat, Probability, check_bounds, fill
from ..errors import InputError
from ..inference.features import FeatureKind, Pooling
from ..state import StateName
from .classifier import (
    CONFIG_FILE,
    NGRAMS_FILE,
    THRESHOLD,
    WEIGHTS_FILE,
    Familiarity,
    check_class_names,
    checked_between,
    moved,
    read_description,
    write_files,
)
from .fine_tuned import load_heads
from .heads import Heads, HeadsConfig, class_probabilities
from .influence import SeveralUnits, influence_of_heads
from .ngrams import BagOfNgrams, load_ngrams, save_ngrams

FORMAT_VERSION = 5
NGRAMS_VERSION = 6
NEUTRAL_VERSION = 7
KIND = "stars"
STARS = 5
FEATURES = FeatureKind(state="hidden", pooling=("last", "mean"))
POSITIVE_WEIGHTS = np.array([0.0, 0.0, 0.5, 1.0, 1.0])  # of one to five stars
SMALLEST_PROBABILITY = 1e-9  # whose log-odds are practically those of zero


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Maps a head's log-odds x to calibrated ones: slope x + offset (Platt 1999)."""

    slope: PositiveFloat = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, "calibration.")

    def log_odds(self, uncalibrated: np.ndarray) -> np.ndarray:
        """Return calibrated log-odds [N] for the head's own log-odds [N]."""
        return self.slope * uncalibrated + self.offset


@dataclass(frozen=True)
class StarsDescription:
    """What `classifier.json` says of a head that predicts stars."""

    OTHER_KEYS: ClassVar = True
    kind: Literal["stars"]
    state: StateName
    pooling: tuple[Pooling, ...]
    classes: tuple[str, str]
    heads: HeadsConfig
    calibration: Calibration
    familiarity: Familiarity | None
    unsure: tuple[Probability, Probability]
    threshold: Probability
    model_digest: str
    neutral: Calibration | None = None

    def __post_init__(self) -> None:
        if (self.state, self.pooling) != (FEATURES.state, FEATURES.poolings):
            raise InputError(f"state and pooling are {self.state!r} and {self.pooling}")
        check_class_names(self.classes)
        checked_between(self.unsure)
        if self.heads.hidden_layers:
            raise InputError("a head that predicts stars must be linear")


@dataclass(frozen=True, kw_only=True)
class StarsClassifier(SeveralUnits):
    """A head with five classes, one to five stars. Four and five are positive, three half so.

    Features: 2H of the model's; with a bag of n-grams, the bag's log-odds as the last column.
    """

    heads: Heads  # linear, on the CPU
    classes: tuple[str, ...]  # two: negative, positive; the head itself has STARS classes
    model_digest: str
    calibration: Calibration
    familiarity: Familiarity | None
    # range of the positive class's probability in which the answer is marked unsure
    unsure: tuple[float, float]
    threshold: float = THRESHOLD  # of the positive one
    ngrams: BagOfNgrams | None = None
    neutral: Calibration | None = None  # of the log-odds of three stars; None: no neutral answers

    kind = FEATURES  # a FeatureKind, not KIND, which classifier.json has as "kind"
    is_binary, is_multilabel = True, False

    @property
    def influence(self) -> np.ndarray:
        """How much a standard deviation of each unit moves the probability of praise: [1, H]."""
        weights, poolings = [POSITIVE_WEIGHTS.tolist()], len(FEATURES.poolings)
        return influence_of_heads(self.heads, weights, exclusive=True, poolings=poolings)

    def with_threshold(self, threshold: float) -> "StarsClassifier":
        """Return the same head with another threshold; its unsure range moves as far."""
        unsure = moved(self.unsure, threshold - self.threshold)
        return replace(self, threshold=threshold, unsure=unsure)

    @torch.inference_mode()
    def of_each_star(self, features: np.ndarray) -> np.ndarray:
        """Return the probabilities of one to five stars, float64 [N, 5], not calibrated."""
        size = self.heads.center.numel()
        if features.shape[1] != size + (self.ngrams is not None):
            more = " and the log-odds of n-grams" if self.ngrams else ""
            raise InputError(f"{features.shape[1]} features; the head takes {size}{more}")
        states = features[:, :size]
        logits = self.heads.eval()(torch.from_numpy(states))
        each = class_probabilities(logits, exclusive=True).numpy()
        return each if self.ngrams is None else tilted(each, features[:, -1])

    def stars(self, features: np.ndarray) -> np.ndarray:
        """Return the expected number of stars, float64 [N], 1 to 5."""
        return self.of_each_star(features) @ np.arange(1.0, STARS + 1)

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return the calibrated log-odds of the positive class, float64 [N]."""
        return self.calibration.log_odds(positive_log_odds(self.of_each_star(features)))

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the calibrated probability of the positive class, float64 [N]."""
        return 1 / (1 + np.exp(-self.decide(features)))

    def neutral_probabilities(self, features: np.ndarray) -> np.ndarray | None:
        """Return the calibrated probability that a text takes no side, float64 [N].

        None if this was not calibrated.
        """
        if self.neutral is None:
            return None
        log_odds = neutral_log_odds(self.of_each_star(features))
        return 1 / (1 + np.exp(-self.neutral.log_odds(log_odds)))

    def choose(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the class, int64 [N], 1 for the positive one."""
        return (probabilities > self.threshold).astype(np.int64)


def tilted(of_each_star: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
    """Return probabilities [N, 5], shifted towards praise by log-odds [N].

    Five stars gain the full log-odds over one star, and half of them over three stars.
    """
    shifted = of_each_star * np.exp(np.outer(log_odds, POSITIVE_WEIGHTS - 0.5))
    return shifted / shifted.sum(1, keepdims=True)


def positive_log_odds(of_each_star: np.ndarray) -> np.ndarray:
    """Return the log-odds [N] of positive, for probabilities of one to five stars [N, 5].

    Three stars count as half positive, so an undecided text has log-odds near zero.
    """
    positive, negative = of_each_star @ POSITIVE_WEIGHTS, of_each_star @ POSITIVE_WEIGHTS[::-1]
    positive, negative = (p.clip(SMALLEST_PROBABILITY) for p in (positive, negative))
    return np.log(positive) - np.log(negative)


def neutral_log_odds(of_each_star: np.ndarray) -> np.ndarray:
    """Return the log-odds [N] of three stars, for probabilities of one to five stars [N, 5]."""
    neutral = of_each_star[:, STARS // 2]
    neutral, others = (p.clip(SMALLEST_PROBABILITY) for p in (neutral, 1 - neutral))
    return np.log(neutral) - np.log(others)


def save_stars(
    folder: Path, classifier: StarsClassifier, origin: Mapping[str, Any] | None = None
) -> None:
    """Write a head that predicts stars; each file is replaced whole. origin: kept as it is."""
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "classes": list(classifier.classes),
        "heads": asdict(classifier.heads.config),
        "state": FEATURES.state,
        "pooling": list(FEATURES.poolings),
        "calibration": asdict(classifier.calibration),
        "familiarity": classifier.familiarity and asdict(classifier.familiarity),
        "unsure": list(classifier.unsure),
        "threshold": classifier.threshold,
        "model_digest": classifier.model_digest,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NGRAMS_FILE).unlink(missing_ok=True)  # of another classifier
    if classifier.ngrams is not None:
        description["format_version"] = NGRAMS_VERSION
        description["ngrams"] = save_ngrams(folder, classifier.ngrams)
    if classifier.neutral is not None:
        description["format_version"] = NEUTRAL_VERSION
        description["neutral"] = asdict(classifier.neutral)
    write_files(folder, classifier.heads.state_dict(), description, origin)


def load_stars(folder: Path, hidden_size: int) -> StarsClassifier:
    """Read what `save_stars` wrote; InputError if it is damaged or something else."""
    path = folder / CONFIG_FILE
    content = read_description(path, NEUTRAL_VERSION)
    place = f"{path}: not a description of a head that predicts one to five stars"
    of = fill(StarsDescription, content, place)
    bag, version = None, content["format_version"]
    if version == NGRAMS_VERSION or (version == NEUTRAL_VERSION and "ngrams" in content):
        bag = load_ngrams(folder, content.get("ngrams"), place)
    feature_count = hidden_size * len(FEATURES.poolings)
    return StarsClassifier(
        heads=load_heads(folder / WEIGHTS_FILE, of.heads, feature_count, STARS),
        classes=of.classes,
        model_digest=of.model_digest,
        calibration=of.calibration,
        familiarity=of.familiarity,
        unsure=checked_between(of.unsure),
        threshold=float(of.threshold),
        ngrams=bag,
        neutral=of.neutral,
    )
