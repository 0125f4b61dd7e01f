"""A classifier of two poles as the page computes it: one shape for all kinds that there are."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..classifiers.classifier import Classifier
from ..classifiers.fine_tuned import SMALLEST_PROBABILITY
from ..classifiers.fitted import Fitted
from ..classifiers.heads import Heads
from ..classifiers.stars import POSITIVE_SHARES, StarsClassifier
from ..classifiers.stars import SMALLEST_PROBABILITY as SMALLEST_OF_STARS
from ..features import FeatureKind


class Affine(NamedTuple):
    """y = weight x + bias, then a PReLU where there is a slope below zero."""

    weight: Tensor  # fp32 [rows, columns]
    bias: Tensor  # fp32 [rows]
    prelu: float | None


class PageHead(NamedTuple):
    """Features through affine maps to K heads of C classes, whose probabilities are averaged.

    A class counts as positive for its share of `shares`, as negative for the rest. The log-odds
    between the two are scaled and moved by the calibration.
    """

    kind: FeatureKind
    poles: tuple[str, ...]  # the negative one, the positive one
    maps: list[Affine]
    shares: tuple[float, ...]  # [C]
    smallest: float  # probability whose logarithm is taken
    slope: float
    offset: float
    unit: int  # that it leans on most
    polarity: int  # 1 where a high value of the unit speaks for the positive pole, else -1


def page_head(fitted: Fitted | None) -> PageHead | None:
    """Return a classifier as the page computes it; None where it is not one of two poles."""
    if fitted is None or not fitted.is_binary:
        return None
    if isinstance(fitted, Classifier):
        return _of_regression(fitted)
    shares, smallest, slope, offset = (0.0, 1.0), SMALLEST_PROBABILITY, 1.0, 0.0
    if isinstance(fitted, StarsClassifier):
        shares, smallest = tuple(POSITIVE_SHARES.tolist()), SMALLEST_OF_STARS
        slope, offset = fitted.calibration.slope, fitted.calibration.offset
    return PageHead(
        *(fitted.kind, fitted.classes, _maps(fitted.heads), shares, smallest, slope, offset),
        *(fitted.neuron, fitted.polarity),
    )


def _of_regression(fitted: Classifier) -> PageHead:
    """Return a logistic regression as a softmax between zero and its score."""
    weight = torch.from_numpy(fitted.coefficients).float()
    bias = torch.tensor([0.0, float(fitted.intercept)])
    scores = Affine(torch.stack([torch.zeros_like(weight), weight]), bias, None)
    return PageHead(
        *(fitted.kind, fitted.classes, [scores], (0.0, 1.0), SMALLEST_PROBABILITY, 1.0, 0.0),
        *(fitted.neuron, fitted.polarity),
    )


def _maps(heads: Heads) -> list[Affine]:
    """Return the layers of heads, the standardisation of the features folded into the first."""
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
