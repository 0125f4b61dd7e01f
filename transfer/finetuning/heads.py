"""Heads that learn, in torch: hidden layers, then several linear heads for every class."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.steps import (
    Affine,
    LogOdds,
    Positive,
    PReLU,
    Probabilities,
    Sigmoid,
    Standardize,
    Step,
)

from .config import HeadsConfig

_SMALLEST_SCALE = 1e-2  # of the median scale, so that a nearly constant unit is not amplified


class Heads(nn.Module):
    """Features [B, F] to logits [B, K, C]: K heads for each of C classes.

    Features are standardised by fixed statistics, so that one learning rate fits units of any
    spread. Hidden layers end in a PReLU, as in Kant et al. 2018's code. Each head reads the last
    layer under its own dropout mask (multi-sample dropout, Inoue 2019, arXiv 1905.09788): without
    it they would differ only in their initial weights.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, config: HeadsConfig, features: int, classes: int):
        super().__init__()
        self.config, self.classes = config, classes
        sizes = [features, *config.hidden_layers]
        self.hidden = nn.ModuleList(nn.Linear(n, m) for n, m in pairwise(sizes))
        self.activations = nn.ModuleList(nn.PReLU() for _ in config.hidden_layers)
        self.heads = nn.Linear(sizes[-1], config.heads_per_class * classes)
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def standardize_by(self, features: Tensor) -> None:
        """Take center and scale from features [N, F] of the training set."""
        scale = features.std(0, correction=0)
        scale = scale.clamp(min=_SMALLEST_SCALE * float(scale.median()))
        self.center.copy_(features.mean(0))
        self.scale.copy_(scale.where(scale > 0, 1))

    def restandardize_by(self, features: Tensor) -> None:
        """Recompute center and scale, and adapt the first layer so that the logits stay."""
        center, scale = self.center.clone(), self.scale.clone()
        self.standardize_by(features)
        first = self.hidden[0] if self.hidden else self.heads
        assert isinstance(first, nn.Linear)
        with torch.no_grad():
            first.bias.add_(first.weight @ ((self.center - center) / scale))
            first.weight.mul_(self.scale / scale)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits [B, K, C] for features [B, F]."""
        z = (features - self.center) / self.scale  # [B, F]
        for layer, activation in zip(self.hidden, self.activations, strict=True):
            z = activation(layer(self._dropped(z)))  # [B, Z]
        K = self.config.heads_per_class
        each = self._dropped(z.unsqueeze(1).expand(-1, K, -1))  # [B, K, Z]
        weight = self.heads.weight.view(K, self.classes, -1)  # [K, C, Z]
        return torch.einsum("bkz,kcz->bkc", each, weight) + self.heads.bias.view(K, -1)

    def as_head(
        self,
        classes: tuple[str, ...],
        *,
        exclusive: bool,
        thresholds: tuple[float, ...] = (),
        model_digest: str = "",
    ) -> Head:
        """Return the current heads as one head that classifies texts.

        exclusive: a text has exactly one of the classes; else any number of them. thresholds: see
        `Head`.
        """
        smallest = float(np.finfo(float).tiny)  # whose logarithm is still finite
        is_binary = exclusive and len(classes) == 2
        last = Positive((0.0, 1.0), smallest) if is_binary else LogOdds()
        return Head(
            classes=classes,
            steps=(*self.steps(exclusive=exclusive), last, Sigmoid()),
            several_labels=not exclusive,
            thresholds=thresholds,
            model_digest=model_digest,
        )

    def steps(self, *, exclusive: bool) -> list[Step]:
        """Return the steps from features to the probabilities of the classes."""
        steps: list[Step] = [Standardize(_copied(self.center), _copied(self.scale))]
        for layer, activation in zip(self.hidden, self.activations, strict=True):
            steps += [_affine(layer), PReLU(_copied(activation.weight).item())]
        return [*steps, _affine(self.heads), Probabilities(self.classes, exclusive)]

    def _dropped(self, z: Tensor) -> Tensor:
        return F.dropout(z, self.config.dropout, self.training)


def build_heads(config: HeadsConfig, features: int, classes: int, seed: int) -> Heads:
    """Build initialised heads; equal seeds give equal parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not those of the GPUs, too
        return Heads(config, features, classes)


def _affine(layer: nn.Module) -> Affine:
    return Affine(_copied(layer.weight), _copied(layer.bias))


def _copied(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
