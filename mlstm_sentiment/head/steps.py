"""The steps of which a head consists: small functions on arrays that are saved with it.

Each step is one class: its arithmetic, its size, and the numbers and arrays that it keeps. A new
kind of head is a new class here. NumPy alone computes them, in float64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from ..bounds import Bound, NonNegativeInt, PositiveFloat, Probability, check_bounds, fill
from ..errors import InputError
from .ngrams import LARGEST, MOST_BUCKETS, log_odds, runs_of_letters

_SMALLEST = 1e-9  # a smaller probability counts as this one before its logarithm is taken
_LARGEST_ODDS = 700.0  # log-odds at which exp neither overflows nor is zero


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What passes from step to step for N texts."""

    values: np.ndarray  # float64 [N, columns]: first the features, at last the probabilities
    learned: np.ndarray | None = None  # float64 [N, questions], log-odds that `correction` adds
    texts: Sequence[str] | None = None  # as the model reads them
    stars: np.ndarray | None = None  # float64 [N], expected
    neutral: np.ndarray | None = None  # float64 [N], the probability of taking no side
    foreign: np.ndarray | None = None  # bool [N], whether it may be in a language unknown to it


@dataclass(frozen=True, eq=False)
class Step:
    """A step: an array in, an array out.

    Fields that are arrays are saved as tensors, all others as JSON. `NAME` is the step's name in
    the file.
    """

    NAME: ClassVar[str]
    IS_LINK: ClassVar[bool] = False  # whether it turns scores into probabilities, as the last one
    NEEDS_TEXTS: ClassVar[bool] = False
    DTYPES: ClassVar[Mapping[str, Any]] = {}  # of arrays, by field, other than float32

    def __init_subclass__(cls, *, name: str, is_link: bool = False) -> None:
        cls.NAME, cls.IS_LINK = name, is_link
        STEPS[name] = cls

    def __post_init__(self) -> None:
        for item in self.array_fields():
            array, dtype = np.asarray(getattr(self, item)), self.DTYPES.get(item, np.float32)
            if item in self.DTYPES and array.dtype != dtype:
                raise InputError(f"{self.NAME}.{item} holds {array.dtype}, not {np.dtype(dtype)}")
            object.__setattr__(self, item, np.asarray(array, dtype))
        check_bounds(self, f"{self.NAME}.")

    def apply(self, batch: Batch) -> Batch:
        return replace(batch, values=self.map(batch.values))

    def map(self, values: np.ndarray) -> np.ndarray:
        """Return the values [N, columns] after this step."""
        return values

    @property
    def takes(self) -> int:
        """The number of columns that it takes; 0: unknown."""
        return 0

    @classmethod
    def array_fields(cls) -> list[str]:
        return [item.name for item in fields(cls) if item.type is np.ndarray]

    def describe(self) -> dict[str, Any]:
        """Return what JSON says of this step: its name, and its fields that are no arrays."""
        arrays = self.array_fields()
        values = {n: v for n, v in vars(self).items() if n not in arrays}
        return {"step": self.NAME, **values}

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self.array_fields()}


STEPS: dict[str, type[Step]] = {}  # by name


def step_of(content: object, arrays: Mapping[str, np.ndarray], place: str) -> Step:
    """Return the step that `describe` and `arrays` were of; InputError, with the place, if none."""
    name = content.get("step") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(name, str) or name not in STEPS:
        raise InputError(f"{place}: step is {name!r}; known: {', '.join(STEPS)}")
    kind = STEPS[name]
    if set(arrays) != set(kind.array_fields()):
        raise InputError(
            f"{place}: tensors {sorted(arrays)} of step {name}; it needs {kind.array_fields()}"
        )
    rest = {key: value for key, value in content.items() if key != "step"}
    if clash := set(rest) & set(arrays):
        raise InputError(f"{place}: unknown key {min(clash)}")
    return fill(kind, {**rest, **arrays}, place, f"{name}.")


@dataclass(frozen=True, eq=False)
class Standardize(Step, name="standardize"):
    """Divides each feature's distance from its mean by its standard deviation."""

    center: np.ndarray  # float32 [F]
    scale: np.ndarray  # float32 [F], above zero

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.center.ndim != 1 or self.center.shape != self.scale.shape:
            raise InputError(f"center and scale have shapes {self.center.shape, self.scale.shape}")
        if not (self.scale > 0).all():
            raise InputError(
                "scale, which divides the features, has a value that is not above zero"
            )

    def map(self, values: np.ndarray) -> np.ndarray:
        return np.asarray((values - self.center) / self.scale)

    @property
    def takes(self) -> int:
        return len(self.center)


@dataclass(frozen=True, eq=False)
class Affine(Step, name="affine"):
    """Weighted sums of the columns, each with a bias."""

    weight: np.ndarray  # float32 [rows, columns]
    bias: np.ndarray  # float32 [rows]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1] or not self.bias.size:
            raise InputError(f"weight and bias have shapes {self.weight.shape, self.bias.shape}")

    def map(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values @ self.weight.T.astype(np.float64) + self.bias)

    @property
    def takes(self) -> int:
        return int(self.weight.shape[1])


@dataclass(frozen=True, eq=False)
class PReLU(Step, name="prelu"):
    """Multiplies negative values by a slope (He et al. 2015)."""

    slope: float

    def map(self, values: np.ndarray) -> np.ndarray:
        return np.where(values < 0, self.slope * values, values)


@dataclass(frozen=True, eq=False)
class Probabilities(Step, name="probabilities"):
    """Logits of several heads to the mean of their probabilities, [N, heads x C] to [N, C]."""

    classes: Annotated[int, Bound(min=1)]
    exclusive: bool = True  # a softmax over a head's classes; else a sigmoid for each

    def map(self, values: np.ndarray) -> np.ndarray:
        each = values.reshape(len(values), values.shape[1] // self.classes, self.classes)
        return np.asarray((_softmax(each) if self.exclusive else _sigmoid(each)).mean(1))


@dataclass(frozen=True, eq=False)
class Ngrams(Step, name="ngrams"):
    """Moves the probabilities by the n-grams of a text: words, and pairs of neighbours.

    The class with weight 1 in `positive` gains their full log-odds over the one with weight 0.
    """

    NEEDS_TEXTS: ClassVar = True
    DTYPES: ClassVar = {"weights": np.int8}
    weights: np.ndarray  # int8 [buckets]
    scale: Annotated[float, Bound(above=0, max=LARGEST)]  # log-odds of a weight of 1
    positive: tuple[Probability, ...]  # how much each class counts as positive

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_buckets(self.NAME, self.weights)

    def log_odds(self, texts: Sequence[str]) -> np.ndarray:
        return log_odds(texts, self.weights, self.scale)

    def apply(self, batch: Batch) -> Batch:
        if len(self.positive) != batch.values.shape[1]:
            raise ValueError(f"{len(self.positive)} classes")
        odds = self.log_odds(_texts_of(batch)).astype(np.float64)
        shifted = batch.values * np.exp(np.outer(odds, np.array(self.positive) - 0.5))
        return replace(batch, values=shifted / shifted.sum(1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Language(Step, name="language"):
    """Notes whether a text may be in another language than the head's, by its runs of letters."""

    NEEDS_TEXTS: ClassVar = True
    DTYPES: ClassVar = {"weights": np.int8}
    weights: np.ndarray  # int8 [buckets], of another language
    scale: Annotated[float, Bound(above=0, max=LARGEST)]  # log-odds of a weight of 1
    limit: float  # log-odds of a text that may just be in another language

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_buckets(self.NAME, self.weights)

    def apply(self, batch: Batch) -> Batch:
        odds = log_odds(_texts_of(batch), self.weights, self.scale, runs_of_letters)
        return replace(batch, foreign=odds > self.limit)


@dataclass(frozen=True, eq=False)
class Stars(Step, name="stars"):
    """Notes the expected number of stars of probabilities of one star, two stars, ..."""

    def apply(self, batch: Batch) -> Batch:
        numbers = np.arange(1.0, batch.values.shape[1] + 1)
        return replace(batch, stars=batch.values @ numbers)


@dataclass(frozen=True, eq=False)
class Neutral(Step, name="neutral"):
    """Stores one class's probability, calibrated, as that of a text that takes no side."""

    column: NonNegativeInt
    slope: PositiveFloat = 1.0
    offset: float = 0.0
    smallest: Annotated[float, Bound(above=0, below=1)] = _SMALLEST

    def apply(self, batch: Batch) -> Batch:
        odds = self.slope * neutral_log_odds(batch.values, self.column, self.smallest) + self.offset
        return replace(batch, neutral=_sigmoid(odds))


@dataclass(frozen=True, eq=False)
class Positive(Step, name="positive"):
    """Probabilities of classes to the log-odds of positive, of which each class is a fraction."""

    weights: tuple[Probability, ...]  # how much each class counts as positive
    smallest: Annotated[float, Bound(above=0, below=1)] = _SMALLEST

    def map(self, values: np.ndarray) -> np.ndarray:
        return positive_log_odds(values, self.weights, self.smallest)[:, None]


@dataclass(frozen=True, eq=False)
class Calibration(Step, name="calibration"):
    """Log-odds x to calibrated ones: slope x + offset (Platt 1999)."""

    slope: PositiveFloat = 1.0
    offset: float = 0.0

    def map(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(self.slope * values + self.offset)


@dataclass(frozen=True, eq=False)
class Learned(Step, name="learned"):
    """Computes log-odds from the features that arrive; `correction` adds them to the scores."""

    weight: np.ndarray  # float32 [questions, columns]

    def apply(self, batch: Batch) -> Batch:
        return replace(batch, learned=batch.values @ self.weight.T.astype(np.float64))

    @property
    def takes(self) -> int:
        return int(self.weight.shape[1])


@dataclass(frozen=True, eq=False)
class Correction(Step, name="correction"):
    """Log-odds x of each question to slope x + offset + what `learned` computed.

    The questions are the columns, and last, if there is one more, whether a text takes no side.
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]

    def apply(self, batch: Batch) -> Batch:
        asked = len(self.slopes) - batch.values.shape[1]
        if len(self.offsets) != len(self.slopes) or asked not in (0, 1):
            raise ValueError(f"{len(self.slopes)} slopes, {len(self.offsets)} offsets")
        if batch.learned is None or batch.learned.shape[1] != len(self.slopes):
            raise InputError(f"step {self.NAME} needs a step {Learned.NAME} of as many questions")
        odds = batch.values
        if batch.neutral is not None and len(self.slopes) > odds.shape[1]:
            odds = np.column_stack([odds, LogOdds().map(batch.neutral)])
        odds = odds * self.slopes + self.offsets + batch.learned
        columns = batch.values.shape[1]
        neutral = _sigmoid(odds[:, columns]) if odds.shape[1] > columns else batch.neutral
        return replace(batch, values=odds[:, :columns], neutral=neutral)


@dataclass(frozen=True, eq=False)
class LogOdds(Step, name="log_odds"):
    """Probabilities to their log-odds, always finite."""

    def map(self, values: np.ndarray) -> np.ndarray:
        p = values.clip(np.finfo(float).tiny, 1 - np.finfo(float).epsneg)
        return np.asarray(np.log(p) - np.log1p(-p))


@dataclass(frozen=True, eq=False)
class Sigmoid(Step, name="sigmoid", is_link=True):
    """Log-odds to probabilities, each on its own."""

    def map(self, values: np.ndarray) -> np.ndarray:
        return _sigmoid(values)


@dataclass(frozen=True, eq=False)
class OneVsRest(Step, name="one_vs_rest", is_link=True):
    """Log-odds of each class against the rest to probabilities that sum to 1."""

    def map(self, values: np.ndarray) -> np.ndarray:
        alone = _sigmoid(values)
        return np.asarray(alone / alone.sum(1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Softmax(Step, name="softmax", is_link=True):
    """Scores to probabilities that sum to 1."""

    def map(self, values: np.ndarray) -> np.ndarray:
        return _softmax(values)


def _check_buckets(step: str, weights: np.ndarray) -> None:
    if weights.ndim != 1 or not 0 < len(weights) <= MOST_BUCKETS:
        raise InputError(f"{step}.weights has shape {weights.shape}")


def _texts_of(batch: Batch) -> Sequence[str]:
    if batch.texts is None:
        raise InputError("the head uses the words of the texts; give the texts, too")
    return batch.texts


def positive_log_odds(
    probabilities: np.ndarray, weights: Sequence[float], smallest: float = _SMALLEST
) -> np.ndarray:
    """Return the log-odds [N] of positive, for probabilities of classes [N, C].

    A class of weight one half, such as three of five stars, counts as half positive: an undecided
    text has log-odds near zero.
    """
    share = np.array(weights)
    return _log_ratio(probabilities @ share, probabilities @ (1 - share), smallest)


def neutral_log_odds(
    probabilities: np.ndarray, column: int, smallest: float = _SMALLEST
) -> np.ndarray:
    neutral = probabilities[:, column]
    return _log_ratio(neutral, 1 - neutral, smallest)


def _log_ratio(one: np.ndarray, other: np.ndarray, smallest: float) -> np.ndarray:
    return np.asarray(np.log(one.clip(smallest)) - np.log(other.clip(smallest)))


def _sigmoid(log_odds: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-log_odds.clip(-_LARGEST_ODDS, _LARGEST_ODDS))))


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
