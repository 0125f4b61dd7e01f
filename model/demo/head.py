"""A classifier between two classes as the page computes it: one form for all kinds."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..classifiers.classifier import Classifier, Familiarity
from ..classifiers.fine_tuned import SMALLEST_PROBABILITY
from ..classifiers.fitted import Fitted
from ..classifiers.heads import Heads
from ..classifiers.ngrams import BagOfNgrams
from ..classifiers.stars import POSITIVE_WEIGHTS, Calibration, StarsClassifier
from ..classifiers.stars import SMALLEST_PROBABILITY as SMALLEST_OF_STARS
from ..inference.features import FeatureKind


class Affine(NamedTuple):
    """y = weight x + bias, then, unless `prelu` is None, a PReLU."""

    weight: Tensor  # fp32 [rows, columns]
    bias: Tensor  # fp32 [rows]
    prelu: float | None  # its slope below zero


class PageHead(NamedTuple):
    """Affine maps from features to the logits of K heads with C classes each.

    The probabilities of the heads are averaged. Each class counts as positive by its weight in
    `positive_weights`, from 0 to 1, and as negative by the rest: three of five stars are half
    positive. Calibration then scales the log-odds by `slope` and adds `offset`.
    """

    kind: FeatureKind
    poles: tuple[str, ...]  # the negative one, the positive one
    maps: list[Affine]
    positive_weights: tuple[float, ...]  # [C]
    smallest: float  # a smaller probability counts as this one, so that its logarithm is finite
    slope: float
    offset: float
    threshold: float  # a text is positive if its probability is above this
    unsure: tuple[float, float]  # a text is unsure if it lies between these, ends included
    familiarity: Familiarity | None  # what a familiar text costs at most; None if not known
    unit: int  # the unit that it relies on most
    polarity: int  # 1 if a high value of the unit means positive, else -1
    ngrams: BagOfNgrams | None = None  # its log-odds move each class by its weight minus 0.5
    neutral: Calibration | None = None  # of the log-odds of three stars; None: no neutral answers


def page_head(fitted: Fitted | None) -> PageHead | None:
    """Return a classifier as the page computes it; None unless it has two classes."""
    if fitted is None or not fitted.is_binary:
        return None
    if isinstance(fitted, Classifier):
        return _of_regression(fitted)
    weights, smallest, slope, offset = (0.0, 1.0), SMALLEST_PROBABILITY, 1.0, 0.0
    ngrams = None
    if isinstance(fitted, StarsClassifier):
        weights, smallest = tuple(POSITIVE_WEIGHTS.tolist()), SMALLEST_OF_STARS
        slope, offset = fitted.calibration.slope, fitted.calibration.offset
        ngrams = fitted.ngrams
    return PageHead(
        *(fitted.kind, fitted.classes, _maps(fitted.heads), weights, smallest, slope, offset),
        *(fitted.threshold, fitted.unsure, fitted.familiarity),
        *(fitted.neuron, fitted.polarity, ngrams),
        neutral=fitted.neutral,
    )


def _of_regression(fitted: Classifier) -> PageHead:
    """Return a logistic regression as a softmax over two scores: zero, and its own."""
    weight = torch.from_numpy(fitted.coefficients).float()
    bias = torch.tensor([0.0, float(fitted.intercept)])
    scores = Affine(torch.stack([torch.zeros_like(weight), weight]), bias, None)
    return PageHead(
        *(fitted.kind, fitted.classes, [scores], (0.0, 1.0), SMALLEST_PROBABILITY, 1.0, 0.0),
        *(fitted.threshold, fitted.unsure, fitted.familiarity, fitted.neuron, fitted.polarity),
    )


def _maps(heads: Heads) -> list[Affine]:
    """Return the layers of heads; the first one also standardises the features."""
    slopes = [activation.weight.item() for activation in heads.activations]  # type: ignore[operator]
    layers = [*heads.hidden, heads.heads]
    maps = [
        Affine(layer.weight.detach(), layer.bias.detach(), slope)
        for layer, slope in zip(layers, [*slopes, None], strict=True)
    ]
    weight = maps[0].weight.double() / heads.scale
    bias = maps[0].bias - weight @ heads.center.double()
    maps[0] = Affine(weight.float(), bias.float(), maps[0].prelu)
    return maps
