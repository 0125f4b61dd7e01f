"""A head: from a model's features to answers, as a list of small steps.

One class for all kinds: two classes, several exclusive ones, several labels for a text, one to five
stars. `steps.py` has the steps. NumPy alone computes a head.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..bounds import NonNegativeInt
from ..engine.interface import TextModel
from ..engine.kinds import FeatureKind, Pooling, StateName
from ..engine.request import Familiarity
from ..errors import InputError
from .steps import Affine, Batch, Neutral, OneVsRest, Sigmoid, Softmax, Standardize, Stars, Step

_TRIED = 16  # rows of random features on which head and estimator must agree
_CLOSE = 1e-4  # the most that their probabilities may differ: the head's weights are fp32
NOT_LINEAR = (
    "not a fitted linear model with probabilities; fit a LogisticRegression, or "
    "OneVsRestClassifier of one, perhaps after a StandardScaler"
)


def _agree(head: "Head", predict_proba: Callable[[np.ndarray], Any]) -> bool:
    """Whether a head's probabilities of random features are those of an estimator."""
    draw = np.random.default_rng(0).normal(size=(_TRIED, head.features)).astype(np.float32)
    expected, result = np.asarray(predict_proba(draw)), head.probabilities(draw)
    columns = np.column_stack([1 - result, result]) if result.ndim == 1 else result
    return columns.shape == expected.shape and bool(np.abs(columns - expected).max() < _CLOSE)


def _kind_of(features: Any) -> tuple[FeatureKind, TextModel | None]:
    loaded = getattr(features, "loaded_", None)
    kind = FeatureKind() if features is None else getattr(features, "kind_", features)
    if not hasattr(kind, "poolings"):
        raise InputError(
            f"features is of type {type(features).__name__}; give the fitted SentimentFeaturizer"
        )
    is_last = kind.layers == "last"
    if loaded is not None:
        is_last = kind.layers_of(loaded.architecture) == [loaded.architecture.layers - 1]
    if kind.tanh or kind.units is not None or not is_last:
        raise InputError(
            f"{kind}: a head takes all units of the last layer, without tanh; featurize so"
        )
    return kind, loaded


def _standardized(scaler: Any) -> Step:
    if not hasattr(scaler, "with_mean") or not hasattr(scaler, "scale_"):
        raise InputError(
            f"{type(scaler).__name__} in the pipeline; a head takes only a fitted StandardScaler"
        )
    size = scaler.n_features_in_
    center = scaler.mean_ if scaler.with_mean else np.zeros(size)
    return Standardize(center, scaler.scale_ if scaler.with_std else np.ones(size))


def _affine(model: Any) -> Affine:
    each: Sequence[Any] = getattr(model, "estimators_", [model])
    if not all(hasattr(part, "coef_") and hasattr(part, "predict_proba") for part in each):
        raise InputError(f"{type(model).__name__}: {NOT_LINEAR}")
    weight = np.concatenate([np.atleast_2d(part.coef_) for part in each])
    bias = np.concatenate([np.broadcast_to(part.intercept_, len(part.coef_)) for part in each])
    return Affine(weight, bias)


def _name_of(label: Any) -> str:
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label) if is_whole else label)


THRESHOLD = 0.5
UNSURE = (0.4, 0.6)  # range of the positive class's probability around that threshold
_TINY = 1e-9  # the least distance of an unsure range that was moved from 0 and 1
_SLOPE_STEP = 1e-5  # distance of the two points between which a slope is taken


@dataclass(frozen=True)
class HeadUnit:
    """The unit that stands for a head."""

    OTHER_KEYS: ClassVar = True
    index: NonNegativeInt
    polarity: Literal[1, -1]  # 1 where a high value of the unit means the last class, else -1
    pooling: str = "last"  # the one in which the unit counts most


class HeadOutput(NamedTuple):
    """What a head says of N texts."""

    scores: np.ndarray  # float64 [N], log-odds of the second of two classes; else [N, C]
    probabilities: np.ndarray  # float64 [N], of the second of two classes; else [N, C]
    stars: np.ndarray | None  # float64 [N], expected
    neutral: np.ndarray | None  # float64 [N], the probability that a text takes no side
    foreign: np.ndarray | None  # bool [N], whether it may be in a language that the head lacks


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """Steps from the features of a text to the probabilities of its classes.

    Features are H units, for each pooling in turn. The last step is a link: from scores to
    probabilities. A head of two exclusive classes has one column there, the second class's.

    >>> head = SentimentClassifier.from_pretrained().fitted
    >>> head.classes
    ('negative', 'positive')
    """

    classes: tuple[str, ...]  # of two: the negative one, the positive one
    steps: tuple[Step, ...]
    model_digest: str = ""  # of the model whose features it uses
    state: StateName = "cell"  # which half of the last layer's state is the feature
    pooling: tuple[Pooling, ...] = ("last",)  # how the states after every token become features
    several_labels: bool = False  # a text may have any number of the classes; else exactly one
    thresholds: tuple[float, ...] = ()
    """Of the positive one of two classes; of every class of several labels; (): one half of each.
    """
    doubt: tuple[float, float] | None = None
    """Range of the positive one's probability in which a text is unsure; None: near the threshold.
    """
    familiarity: Familiarity | None = None  # None: not measured
    unit: HeadUnit | None = None  # None: the one of most influence
    learned: frozenset[str] = frozenset()
    """Digests of the texts that `learn` has fitted it to."""

    def __post_init__(self) -> None:
        if len(set(self.classes)) != len(self.classes) or len(self.classes) < 2:
            raise InputError(f"classes is {self.classes}; give two or more different names")
        self._check_steps()
        untuned = (THRESHOLD,) * (1 if self.is_binary else len(self.classes) * self.several_labels)
        object.__setattr__(self, "thresholds", self.thresholds or untuned)
        if len(self.thresholds) != len(untuned):
            raise InputError(f"{len(self.thresholds)} thresholds for {len(self.classes)} classes")

    @classmethod
    def from_sklearn(
        cls,
        estimator: Any,
        features: Any = None,
        *,
        classes: Sequence[str] | None = None,
        model_digest: str = "",
    ) -> "Head":
        """Return a linear model that scikit-learn has fitted on a model's features, as a head.

        estimator: a fitted `LogisticRegression`, a `OneVsRestClassifier` of one (also for several
        labels), or a pipeline of `StandardScaler` and one of these; it may begin with the
        `SentimentFeaturizer`. features: the featurizer, or a `FeatureKind`, unless the pipeline has
        it; None: the defaults of `SentimentFeaturizer`. classes: their names, in the order of the
        estimator's `classes_`; of two, the second is the positive one. model_digest: of the model,
        unless the featurizer says it. Raises InputError for any other estimator, and if head and
        estimator do not agree on random features.

        A `SentimentClassifier` leaves out HTML tags before it computes features, and a
        `SentimentFeaturizer` does not: fit on texts that `text.markup.without_tags` returns.

        >>> head = Head.from_sklearn(LogisticRegression().fit(X, y), featurizer)  # doctest: +SKIP
        >>> save_head(Path("runs/mine/model/classifier"), head)  # doctest: +SKIP
        """
        parts = [part for _, part in getattr(estimator, "steps", [("", estimator)])]
        whole = estimator
        if len(parts) > 1 and hasattr(parts[0], "loaded_"):  # the featurizer is in the pipeline
            features, parts, whole = parts[0], parts[1:], estimator[1:]
        kind, loaded = _kind_of(features)
        *scalers, last = parts
        steps = [_standardized(scaler) for scaler in scalers if scaler != "passthrough"]
        affine = _affine(last)
        size = affine.weight.shape[1]
        if loaded is not None and size != (given := kind.size(loaded.architecture)):
            raise InputError(
                f"the model was fitted on {size} features, but the featurizer returns {given}; "
                "give the featurizer that it was fitted with"
            )
        several = bool(getattr(last, "multilabel_", False))
        model_digest = model_digest or ("" if loaded is None else loaded.digest())
        links = (Sigmoid(),) if several or len(affine.bias) == 1 else (Softmax(), OneVsRest())
        own = tuple(map(_name_of, last.classes_))
        names = own if classes is None else tuple(map(str, classes))
        if len(names) != len(own):
            raise InputError(f"{len(names)} classes are named; the model has {len(own)}")
        if set(names) == set(own) and names != own:
            raise InputError(
                f"classes is {', '.join(names)}; the model has them as {', '.join(own)}: leave "
                "classes out, or give new names in this order"
            )
        for link in links:
            head = cls(
                classes=names,
                steps=(*steps, affine, link),
                model_digest=model_digest,
                state=kind.state,
                pooling=kind.poolings,
                several_labels=several,
            )
            if _agree(head, whole.predict_proba):
                return head
        raise InputError(f"{type(estimator).__name__}: {NOT_LINEAR}")

    def _check_steps(self) -> None:
        if [n for n, step in enumerate(self.steps, 1) if step.IS_LINK] != [len(self.steps)]:
            raise InputError("the last step of a head, and no other, must be a link")
        if not self.pooling or self.features % len(self.pooling):
            raise InputError(f"{self.features} features for {len(self.pooling)} poolings")
        batch = Batch(values=np.zeros((1, self.features)), texts=[""])
        for step in self.steps:
            columns = batch.values.shape[1]
            try:
                if step.takes not in (0, columns):
                    raise ValueError(f"it takes {step.takes}")
                batch = step.apply(batch)
            except (ValueError, IndexError) as error:
                why = f"step {step.NAME} does not fit {columns} columns"
                raise InputError(f"{why} ({error})") from error
        columns = batch.values.shape[1]
        if columns != (1 if self.is_binary else len(self.classes)):
            raise InputError(f"{columns} scores for {len(self.classes)} classes")
        if (unit := self.unit) is not None and unit.index >= self.units:
            raise InputError(f"neuron.index is {unit.index}; it must be below {self.units}")
        if unit is not None and unit.pooling not in self.pooling:
            raise InputError(f"neuron.pooling is {unit.pooling!r}; known: {self.pooling}")

    @property
    def features(self) -> int:
        return self.steps[0].takes

    @property
    def units(self) -> int:
        return self.features // len(self.pooling)

    @property
    def kind(self) -> FeatureKind:
        return FeatureKind(state=self.state, pooling=self.pooling)

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes that exclude each other."""
        return len(self.classes) == 2 and not self.several_labels

    @property
    def has_neutral(self) -> bool:
        return any(step.NAME == Neutral.NAME for step in self.steps)

    @property
    def has_stars(self) -> bool:
        return any(step.NAME == Stars.NAME for step in self.steps)

    @property
    def uses_words(self) -> bool:
        return any(step.NEEDS_TEXTS for step in self.steps)

    @property
    def threshold(self) -> float:
        """The threshold of the positive one of two classes."""
        return self.thresholds[0] if self.is_binary else THRESHOLD

    @property
    def unsure(self) -> tuple[float, float]:
        """The range of the positive one's probability in which a text counts as unsure."""
        return self.doubt or _moved(UNSURE, THRESHOLD, self.threshold)

    def with_threshold(self, threshold: float) -> "Head":
        """Return the same head with another threshold; its unsure range moves with it."""
        doubt = self.doubt and _moved(self.doubt, self.threshold, threshold)
        return replace(self, thresholds=(threshold,), doubt=doubt)

    def answer(self, features: np.ndarray, texts: Sequence[str] | None = None) -> HeadOutput:
        """Return all that it says of features [N, F].

        texts: as the model reads them, for a head that also uses their words.
        """
        if features.shape[1] != self.features:
            raise InputError(f"{features.shape[1]} features; the head takes {self.features}")
        batch = Batch(values=features.astype(np.float64), texts=texts)
        for step in self.steps[:-1]:
            batch = step.apply(batch)
        done = self.steps[-1].apply(batch)
        scores, probabilities = batch.values, done.values
        if self.is_binary:
            scores, probabilities = scores[:, 0], probabilities[:, 0]
        return HeadOutput(scores, probabilities, done.stars, done.neutral, done.foreign)

    def probabilities(self, features: np.ndarray, texts: Sequence[str] | None = None) -> np.ndarray:
        """Return probabilities, float64: [N] of the positive one of two classes, else [N, C]."""
        return self.answer(features, texts).probabilities

    def choose(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the class, int64 [N]; of several labels 0 or 1 for each, int64 [N, C]."""
        if not self.is_binary and not self.several_labels:
            return probabilities.argmax(1)
        thresholds = self.threshold if self.is_binary else np.array(self.thresholds)
        return (probabilities > thresholds).astype(np.int64)

    @cached_property
    def influence(self) -> np.ndarray:
        """How much each unit moves each class (of two, the second), over all poolings: [P, H].

        If the features' statistics are known: how much a standard deviation of the unit changes the
        probability, by the slope at the mean text. Else: its weight in the score.
        """
        is_standardized = self.steps[0].NAME == Standardize.NAME
        rest = self.steps[1:] if is_standardized else self.steps[:-1]
        rows = np.eye(self.features)  # factors of the features before `rest`
        point = np.zeros(self.features)
        if rest and isinstance(rest[0], Affine):  # fewer slopes to compute
            rows, point, rest = rest[0].weight, rest[0].bias, rest[1:]
        changes = _slopes(rest, point.astype(np.float64)) @ rows
        return np.asarray(changes.reshape(len(changes), len(self.pooling), -1).sum(1))

    @property
    def neuron(self) -> int:
        return self.own_unit.index

    @property
    def polarity(self) -> int:
        """1 if a high value of that unit means the last class, else -1."""
        return self.own_unit.polarity

    @property
    def neuron_column(self) -> int:
        """The feature with that unit's value, 0 to F - 1."""
        return self.pooling.index(self.own_unit.pooling) * self.units + self.neuron

    @cached_property
    def own_unit(self) -> HeadUnit:
        """The unit that was named to stand for the head, or the one of most influence."""
        if self.unit is not None:
            return self.unit
        influence = self.influence
        index = int(np.abs(influence).max(0).argmax())
        return HeadUnit(index, -1 if influence[-1, index] < 0 else 1, self.pooling[0])


def _slopes(steps: Sequence[Step], point: np.ndarray) -> np.ndarray:
    """Return the slopes of the steps at a point [R], numerically: [P, R]."""
    both = point + _SLOPE_STEP * np.concatenate([np.eye(len(point)), -np.eye(len(point))])
    batch = Batch(values=both, texts=[""] * len(both))  # no words
    for step in steps:
        batch = step.apply(batch)
    up, down = np.split(batch.values, 2)
    return np.asarray((up - down).T / (2 * _SLOPE_STEP))


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


def _moved(unsure: tuple[float, float], old: float, new: float) -> tuple[float, float]:
    """Return the range `unsure`, its log-odds shifted as its threshold's were: within (0, 1)."""
    old, new, low, high = (min(max(p, _TINY), 1 - _TINY) for p in (old, new, *unsure))
    by = new * (1 - old) / (old * (1 - new))  # odds of both ends change by this factor
    return low * by / (low * by + (1 - low)), high * by / (high * by + (1 - high))


def ranked_units(influence: np.ndarray) -> list[int]:
    """Return the units with any influence [P, H], ranked by their largest on any class."""
    largest = np.abs(influence).max(0)
    order = np.argsort(-largest, kind="stable")
    return [int(unit) for unit in order if largest[unit] > 0]
