"""Reads a linear model that scikit-learn has fitted on our features, for a head."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.kinds import FeatureKind
from ..errors import InputError
from .steps import Affine, OneVsRest, Sigmoid, Softmax, Standardize, Step

_TRIED = 16  # rows of random features on which head and estimator must agree
_CLOSE = 1e-4  # the most that their probabilities may differ: the head's weights are fp32
NOT_LINEAR = (
    "not a fitted linear model with probabilities; fit a LogisticRegression, or "
    "OneVsRestClassifier of one, perhaps after a StandardScaler"
)


class _LinearModel(NamedTuple):
    """A linear model of scikit-learn, in the parts of a head."""

    steps: tuple[Step, ...]  # to the scores
    links: tuple[Step, ...]  # candidates; one of them gives the model's probabilities
    names: tuple[str, ...]
    several_labels: bool
    kind: FeatureKind
    digest: str  # of the model whose features it takes; empty if not known
    predict_proba: Callable[[np.ndarray], Any]  # from features

    def agrees_with(self, probabilities: Callable[[np.ndarray], np.ndarray], features: int) -> bool:
        """Whether probabilities, [N] of the second of two classes or [N, C], are the model's."""
        draw = np.random.default_rng(0).normal(size=(_TRIED, features)).astype(np.float32)
        expected, result = np.asarray(self.predict_proba(draw)), probabilities(draw)
        columns = np.column_stack([1 - result, result]) if result.ndim == 1 else result
        return columns.shape == expected.shape and bool(np.abs(columns - expected).max() < _CLOSE)


def linear_model(estimator: Any, features: Any = None) -> _LinearModel:
    """Return a fitted linear model's parts; see `Head.from_sklearn`. InputError for any other."""
    parts = [part for _, part in getattr(estimator, "steps", [("", estimator)])]
    whole = estimator
    if len(parts) > 1 and hasattr(parts[0], "loaded_"):  # the featurizer stands in the pipeline
        features, parts, whole = parts[0], parts[1:], estimator[1:]
    kind, digest = _kind_of(features)
    *scalers, last = parts
    steps = [_standardized(scaler) for scaler in scalers if scaler != "passthrough"]
    affine = _affine(last)
    _check_size(affine.weight.shape[1], features)
    several = bool(getattr(last, "multilabel_", False))
    links = (Sigmoid(),) if several or len(affine.bias) == 1 else (Softmax(), OneVsRest())
    names = tuple(map(_name_of, last.classes_))
    return _LinearModel((*steps, affine), links, names, several, kind, digest, whole.predict_proba)


def _kind_of(features: Any) -> tuple[FeatureKind, str]:
    loaded = getattr(features, "loaded_", None)
    kind = FeatureKind() if features is None else getattr(features, "kind_", features)
    if not hasattr(kind, "poolings"):
        raise InputError(
            f"features is of type {type(features).__name__}; give the fitted SentimentFeaturizer"
        )
    if kind.tanh or kind.units is not None or kind.layers not in ("last", [-1]):
        raise InputError(
            f"{kind}: a head takes all units of the last layer, without tanh; featurize so"
        )
    return kind, "" if loaded is None else loaded.digest()


def _check_size(size: int, features: Any) -> None:
    """Raise InputError unless the features of a featurizer, if there is one, are so many."""
    loaded = getattr(features, "loaded_", None)
    if loaded is not None and size != (given := features.kind_.size(loaded.architecture)):
        raise InputError(
            f"the model was fitted on {size} features, but the featurizer returns {given}; give "
            "the featurizer that it was fitted with"
        )


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
    """Return the name of a class: a whole number without a point."""
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label) if is_whole else label)
