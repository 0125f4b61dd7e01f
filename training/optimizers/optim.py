"""The optimiser, and the published rules for its learning rate.

Radford et al. 2017 (arXiv:1704.01444) and Puri et al. 2018 (arXiv:1808.01371).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn

from mlstm_sentiment.bounds import (
    SAVED,
    Bound,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    check_bounds,
)
from mlstm_sentiment.errors import InputError
from model.layers.language_model import LanguageModel

_BASE_LEARNING_RATE = 5e-4  # for a global batch of 128 (Radford et al. 2017)
_BASE_LANES = 128
_MAX_LEARNING_RATE = 3e-3  # Puri et al. 2018: the cap that large batches need
BETAS = (0.9, 0.999)  # of Adam and LAMB; sgd takes the first as its momentum
_MUON_MOMENTUM = 0.95
_LAMB_EPSILON = 1e-6
_APEX_HAS = ("adam", "adamw", "lamb")
MOST_STEPS = 10**9  # of a run; in a longer one, the last rates would round to zero
_SHRINKING = ("adamw", "muon", "sgd")  # a step multiplies the weights by 1 - rate * weight decay

_Decay = Literal["linear", "constant"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rates of a run. OptimConfig describes the fields after `steps`.

    Raises InputError if a step of the run would have a rate of zero or less and so learn nothing.
    """

    peak: float
    steps: int  # the planned length of the run
    decay: _Decay = "linear"
    warmup: float = 0.0
    hold: float = 0.0
    cooldown: range | None = None  # its steps

    def __post_init__(self) -> None:
        last = (self.cooldown or range(self.steps))[-1]
        if self.rate(last) > 0:
            return
        if self.cooldown is None:
            raise InputError(
                f"optim.lr is {self.peak:g}: so low that the last step's rate rounds to zero; give "
                "a higher one"
            )
        raise InputError(
            f"the cooldown would begin at step {self.cooldown.start:,}, where the learning rate is "
            "already zero; copy the run and remove the copy's last checkpoints to begin it earlier,"
            " or set optim.decay constant"
        )

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.cooldown is None:
            return self._before_cooldown(step)
        begin = self.cooldown.start
        fallen = min(max(step - begin, 0) / len(self.cooldown), 1.0)
        return self._before_cooldown(min(step, begin)) * (1 - fallen)

    def _before_cooldown(self, step: int) -> float:
        warmup_steps = self.warmup * self.steps
        if step < warmup_steps:
            return self.peak * (step + 1) / (warmup_steps + 1)
        begin = warmup_steps + self.hold * self.steps
        progress = min(max(step - begin, 0) / max(self.steps - begin, 1), 1.0)
        if self.decay == "linear":
            return self.peak * (1 - progress)
        return self.peak


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Optimiser, learning rate and its schedule, gradient clipping."""

    name: Literal["adam", "adamw", "sgd", "muon", "lamb"] = "adam"
    """The papers use Adam. muon is Muon on the layers' matrices and AdamW on everything else; lamb
    is LAMB (You et al. 2020), whose lr is relative to each tensor's norm."""
    fused: Literal["auto", "torch", "apex"] = "auto"
    """Kernels of the update: torch's (auto, torch), or FusedAdam and FusedLAMB of NVIDIA's apex, on
    a GPU, if it is installed."""
    lr: PositiveFloat | None = None
    """Peak learning rate. Default: the papers' rule, 5e-4 x lanes/128, at most 3e-3; the windows of
    a step (parallel.windows_per_step) do not count. If some lanes have ended, the rate of a step is
    scaled by the fraction of a full window that is read."""
    decay: _Decay = "linear"
    """linear: the rate falls to zero at the end of the run. constant: it stays at its peak."""
    warmup: Fraction = 0.0
    """Fraction of the steps over which the rate rises from zero."""
    hold: Fraction = 0.0
    """Fraction of the steps after the warm-up during which the rate stays at its peak."""
    cooldown: Annotated[float, Bound(above=0, max=1)] | None = None
    """Fraction of the steps over which the rate falls linearly to zero; then the run ends. A resume
    that changes this option begins the cooldown immediately. Default: none, only the schedule."""
    cooldown_from: Annotated[NonNegativeInt | None, SAVED] = None
    """Step after which the cooldown begins, set when a run is resumed with a cooldown. Default: the
    cooldown takes the last steps of the run."""
    clip_norm: PositiveFloat | None = None
    """Largest norm of the gradient, after unscaling. Default: no clipping."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay: decoupled from the gradient in adamw, muon and lamb, added to it in adam and
    sgd. It shrinks every tensor, biases, embedding and weight norm's gains too. Under weight norm
    the gains set a matrix's size: shrinking its rows only makes later steps turn them more."""

    def __post_init__(self) -> None:
        check_bounds(self, "optim.")
        if self.fused == "apex" and self.name not in _APEX_HAS:
            raise InputError(
                f"optim.fused apex has adam, adamw and lamb, not {self.name}; set optim.fused torch"
            )
        if self.warmup + self.hold > 1:
            raise InputError("optim.warmup and optim.hold are together more than the whole run")
        shrinks = (self.lr or _MAX_LEARNING_RATE) * self.weight_decay
        if self.name in _SHRINKING and shrinks > 1:
            raise InputError(
                f"optim.weight_decay is {self.weight_decay:g}: times the highest learning rate it "
                "is above 1, and a step would turn the sign of the weights; lower it"
            )

    def peak(self, lanes: float) -> float:
        """Return the peak learning rate for a global batch of `lanes`."""
        if self.lr is not None:
            return self.lr
        return min(_BASE_LEARNING_RATE * lanes / _BASE_LANES, _MAX_LEARNING_RATE)

    def cooldown_of(self, steps: int) -> range | None:
        """Return the steps in which a run planned for `steps` cools down; None: it never does."""
        if self.cooldown is None:
            return None
        length = max(1, round(self.cooldown * steps))
        begin = steps - length if self.cooldown_from is None else self.cooldown_from
        return range(begin, begin + length)

    def schedule(self, steps: int, lanes: float) -> Schedule:
        """Return the learning rates of a run planned for `steps`; lanes: the global batch."""
        return Schedule(
            peak=self.peak(lanes),
            steps=steps,
            decay=self.decay,
            warmup=self.warmup,
            hold=self.hold,
            cooldown=self.cooldown_of(steps),
        )


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], rate: float) -> None:
    """Set the rate of the next step; a parameter group's `factor` multiplies it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)


def make_optimizers(
    model: LanguageModel,
    config: OptimConfig,
    muon_dtype: Callable[[], torch.dtype] = lambda: torch.float32,
) -> list[torch.optim.Optimizer]:
    """Build the optimisers. The trainer sets every learning rate before every step.

    muon_dtype: returns the dtype of Muon's products, on which all ranks agree; called only for
    muon. Raises InputError if the config needs a package or a GPU that is missing.
    """
    parameters, optimizers = dict(model.named_parameters()), list[torch.optim.Optimizer]()
    if config.name == "muon":
        from .muon import Muon

        # The embedding and the decoder are tables of tokens, not maps between features.
        names = [n for n, p in parameters.items() if n.startswith("layers.") and p.ndim == 2]
        optimizers.append(
            Muon(
                [parameters.pop(name) for name in names],
                dtype=muon_dtype(),
                lr=0.0,
                momentum=_MUON_MOMENTUM,
                weight_decay=config.weight_decay,
            )
        )
    return [*optimizers, _make_optimizer(list(parameters.values()), config)]


def _make_optimizer(
    parameters: Sequence[nn.Parameter], config: OptimConfig
) -> torch.optim.Optimizer:
    name = "adamw" if config.name == "muon" else config.name
    settings: dict[str, Any] = {"betas": BETAS, "weight_decay": config.weight_decay}
    if name == "lamb":
        settings["eps"] = _LAMB_EPSILON
    if config.fused == "apex":
        from .nvidia_apex import make_fused

        return make_fused(name, parameters, settings)
    if name == "lamb":
        return make_lamb(parameters, **settings)
    if name == "sgd":
        decay = config.weight_decay
        return torch.optim.SGD(parameters, lr=0.0, momentum=BETAS[0], weight_decay=decay)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(parameters, lr=0.0, fused=True, **settings)


def make_lamb(
    parameters: Sequence[nn.Parameter], *, eps: float = _LAMB_EPSILON, **settings: Any
) -> torch.optim.Optimizer:
    """Build pytorch-optimizer's LAMB, set to You et al. 2020 (arXiv:1904.00962), algorithm 2.

    It is for large batches: Adam's direction, and steps in proportion to each tensor's norm. For
    each tensor w of gradient g:

        m <- beta1 m + (1 - beta1) g        v <- beta2 v + (1 - beta2) g^2
        r = m / (sqrt(v) + epsilon) + weight_decay w        w <- w - lr |w| / |r| r

    with phi(|w|) = |w|, so nothing is clamped, and |w| / |r| = 1 where either is 0. The bias of m
    and v is not corrected. Apart from weight decay and epsilon, dividing by |r| cancels it, and the
    paper's appendix finds that warm-up has the same effect.

    settings: betas and weight_decay. Raises InputError if the package is missing.
    """
    try:
        from pytorch_optimizer import Lamb
    except ModuleNotFoundError as error:
        raise InputError(
            "optim.name lamb needs a package that is not there: pip install pytorch-optimizer"
        ) from error

    optimizer = Lamb(
        parameters,
        lr=0.0,
        eps=eps,
        **settings,
        weight_decouple=False,  # weight decay is part of r, as in the paper
        adam_debias=True,  # else lr is divided by 1 - beta1^t: half of a correction
    )
    optimizer.clamp = math.inf  # of |w|; 10 by default
    return optimizer
