"""The optimiser, and the published rules for its learning rate."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from model.errors import InputError

BASE_LEARNING_RATE = 5e-4  # for a global batch of 128 (Radford et al. 2017)
BASE_LANES = 128
MAX_LEARNING_RATE = 3e-3  # Puri et al. 2018: the cap that large batches need


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Optimiser, learning rate and its schedule, gradient clipping."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    """The papers use Adam."""
    lr: float | None = None
    """Peak learning rate; absent, the papers' rule: 5e-4 x lanes/128, at most 3e-3."""
    decay: Literal["linear", "cosine", "constant"] = "linear"
    """How the rate falls, to zero at the end of the run unless decay_steps says otherwise."""
    decay_steps: int | None = None
    """Steps after which the rate would be zero; Puri et al. used 100,000 for a shorter run."""
    warmup: float = 0.0
    """Fraction of the steps over which the rate rises from zero."""
    clip_norm: float | None = None
    """Largest norm of the gradient, after unscaling; absent, no clipping."""
    beta1: float = 0.9
    beta2: float = 0.999
    """Adam's decay rates; sgd takes beta1 as its momentum."""
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lr", "decay_steps", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"optim.{name} is {value}; it must be above zero")
        if not self.weight_decay >= 0:
            raise InputError(f"optim.weight_decay is {self.weight_decay}; it must not be negative")
        if not 0 <= self.warmup < 1:
            raise InputError(f"optim.warmup is {self.warmup}; it is a fraction, 0 <= warmup < 1")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"optim.{name} is {getattr(self, name)}; 0 <= {name} < 1")

    def peak(self, lanes: int) -> float:
        """Return the peak learning rate for a global batch of `lanes`."""
        if self.lr is not None:
            return self.lr
        return min(BASE_LEARNING_RATE * lanes / BASE_LANES, MAX_LEARNING_RATE)

    def learning_rate(self, step: int, steps: int, lanes: int) -> float:
        """Return the rate of step `step`, counted from 0, of `steps`."""
        peak = self.peak(lanes)
        warmup_steps = self.warmup * steps
        if step < warmup_steps:
            return peak * (step + 1) / (warmup_steps + 1)
        horizon = self.decay_steps or steps
        progress = min((step - warmup_steps) / max(horizon - warmup_steps, 1), 1.0)
        if self.decay == "linear":
            return peak * (1 - progress)
        if self.decay == "cosine":
            return peak * (1 + math.cos(math.pi * progress)) / 2
        return peak


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimConfig
) -> torch.optim.Optimizer:
    """Build the optimiser; its learning rate is set anew before every step."""
    parameters = list(parameters)
    if config.name == "sgd":
        return torch.optim.SGD(
            parameters, lr=0.0, momentum=config.beta1, weight_decay=config.weight_decay
        )
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return kind(
        parameters,
        lr=0.0,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )
