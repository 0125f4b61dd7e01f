"""The optimiser, and the published rules for its learning rate.

Radford et al. 2017 (arXiv:1704.01444) and Puri et al. 2018 (arXiv:1808.01371).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from model.bounds import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)
from model.errors import InputError
from model.language_model import LanguageModel

from .lamb import make_lamb
from .muon import Muon
from .nvidia_apex import HAS as APEX_HAS
from .nvidia_apex import make_fused
from .schedule import Decay, Schedule

BASE_LEARNING_RATE = 5e-4  # for a global batch of 128 (Radford et al. 2017)
BASE_LANES = 128
MAX_LEARNING_RATE = 3e-3  # Puri et al. 2018: the cap that large batches need
MUONS_OWN = (
    "momentum",
    "by_gate",
    "balance_rows",
    "keep_norms",
    "rest_factor",
    "decoder_factor",
)
SHRINKING = ("adamw", "muon", "sgd")  # a step multiplies the weights by 1 - rate * weight decay


def make_torchs(
    name: str,
    parameters: Any,
    *,
    betas: tuple[float, float],
    weight_decay: float,
) -> torch.optim.Optimizer:
    """Build adam, adamw or sgd of torch, or pytorch-optimizer's lamb.

    parameters: a list of them, or of groups, as torch.optim takes them.
    """
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.0, momentum=betas[0], weight_decay=weight_decay)
    if name == "lamb":
        return make_lamb(parameters, betas=betas, weight_decay=weight_decay)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(parameters, lr=0.0, betas=betas, weight_decay=weight_decay, fused=True)


class Kernels(NamedTuple):
    """The implementation of the updates."""

    make: Callable[..., torch.optim.Optimizer]  # called like `make_torchs`
    names: tuple[str, ...]  # the optimisers that there are


TORCHS = Kernels(make_torchs, ("adam", "adamw", "sgd", "muon", "lamb"))
KERNELS = {"auto": TORCHS, "torch": TORCHS, "apex": Kernels(make_fused, APEX_HAS)}


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
    decay: Decay = "linear"
    """linear, cosine: the shape in which the rate falls to zero, at the end of the run unless
    decay_steps is given. constant: it stays at its peak."""
    decay_steps: PositiveInt | None = None
    """Steps after which the rate would be zero; Puri et al. used 100,000 for a shorter run."""
    warmup: Fraction = 0.0
    """Fraction of the steps over which the rate rises from zero."""
    hold: Fraction = 0.0
    """Fraction of the steps after the warm-up during which the rate stays at its peak."""
    cooldown_steps: PositiveInt | None = None
    """Steps over which the rate falls in a straight line to zero, where the run ends. A resume with
    this option begins it at once. Default: no cooldown, only the schedule."""
    cooldown_from: NonNegativeInt | None = None
    """Step after which the cooldown begins. Default: it takes the last steps of a new run, or
    begins where the run resumes."""
    clip_norm: PositiveFloat | None = None
    """Largest norm of the gradient, after unscaling. Default: no clipping."""
    beta1: Fraction = 0.9
    """Decay rate of the mean of the gradients in Adam and LAMB; sgd takes it as its momentum."""
    beta2: Fraction = 0.999
    """Decay rate of the mean of their squares in Adam and LAMB."""
    momentum: Fraction = 0.95
    """Momentum of Muon, on the matrices."""
    by_gate: bool = False
    """Muon makes each block of H rows of a gates' matrix orthogonal by itself; other matrices are
    unchanged. Not for a transformer, which has no gates."""
    balance_rows: bool = False
    """Muon divides each row of an update by the root of its mean square over the steps; the whole
    keeps its norm (NorMuon, Li et al. 2025)."""
    keep_norms: bool = False
    """After a step of Muon, rows under weight norm have the length they had before. Otherwise they
    grow, and a step turns them less and less. If parallel.combine adds up whole steps instead of
    gradients, they keep it only nearly."""
    rest_factor: PositiveFloat = 1.0
    """AdamW's rate on everything else under muon, as a multiple of lr."""
    decoder_factor: PositiveFloat = 1.0
    """The decoder's rate under muon, as a multiple of the rate of everything else that AdamW
    updates."""
    decay_on: str = "directions gains embedding decoder biases"
    """Which parameters weight_decay shrinks under muon; directions: the matrices that Muon updates."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay: decoupled from the gradient in adamw, muon and lamb, added to it in adam and
    sgd. It shrinks every tensor, biases, embedding and weight norm's gains too. A matrix under
    weight norm has the size of its gains: there it only makes later steps turn the rows more."""

    def __post_init__(self) -> None:
        check_bounds(self, "optim.")
        if self.cooldown_from is not None and self.cooldown_steps is None:
            raise InputError(
                f"optim.cooldown_from is {self.cooldown_from}; it needs optim.cooldown_steps"
            )
        self._check_settings_of_muon()
        *names, last = KERNELS[self.fused].names
        if self.name not in (*names, last):
            raise InputError(
                f"optim.fused {self.fused} has {', '.join(names)} and {last}, not {self.name}; "
                "set optim.fused torch"
            )
        if self.warmup + self.hold > 1:
            raise InputError("optim.warmup and optim.hold are together more than the whole run")
        shrinks = (self.lr or MAX_LEARNING_RATE) * self._highest_factor * self.weight_decay
        if self.name in SHRINKING and shrinks > 1:
            raise InputError(
                f"optim.weight_decay is {self.weight_decay:g}: times the highest learning rate it "
                "is above 1, and a step would turn the sign of the weights; lower it"
            )

    def _check_settings_of_muon(self) -> None:
        given = [n for n in MUONS_OWN if getattr(self, n) != getattr(type(self), n)]
        if given and self.name != "muon":
            beta1 = " (sgd takes optim.beta1)" if given[0] == "momentum" else ""
            raise InputError(
                f"optim.{given[0]} is {getattr(self, given[0])}, which only muon reads{beta1}; "
                f"leave it out, or set optim.name muon instead of {self.name}"
            )

    @property
    def _highest_factor(self) -> float:
        """The largest multiple of lr at which any weight is updated."""
        if self.name != "muon":
            return 1.0
        return max(1.0, self.rest_factor, self.rest_factor * self.decoder_factor)

    @property
    def stateful(self) -> bool:
        """Whether a step depends on earlier ones other than through the weights."""
        return self.name != "sgd" or self.beta1 > 0

    def peak(self, lanes: float) -> float:
        """Return the peak learning rate for a global batch of `lanes`."""
        if self.lr is not None:
            return self.lr
        return min(BASE_LEARNING_RATE * lanes / BASE_LANES, MAX_LEARNING_RATE)

    def cooldown_begin(self, steps: int) -> int | None:
        """Return the step after which a run planned for `steps` cools down; None: it never does."""
        if self.cooldown_steps is None or self.cooldown_from is not None:
            return self.cooldown_from
        return steps - self.cooldown_steps

    def last_step(self, steps: int) -> int:
        """Return the step at which a run planned for `steps` ends: after its cooldown, if any."""
        begin = self.cooldown_begin(steps)
        return steps if begin is None else begin + (self.cooldown_steps or 0)

    def without_cooldown(self) -> "OptimConfig":
        """Return the settings of a run whose rate follows its decay alone."""
        return replace(self, cooldown_steps=None, cooldown_from=None)

    def schedule(self, steps: int, lanes: float) -> Schedule:
        """Return the learning rates of a run planned for `steps`; lanes: the global batch."""
        return Schedule(
            peak=self.peak(lanes),
            steps=steps,
            decay=self.decay,
            decay_steps=self.decay_steps,
            warmup=self.warmup,
            hold=self.hold,
            cooldown_steps=self.cooldown_steps or 0,
            cooldown_begin=self.cooldown_begin(steps),
        )


def make_optimizers(
    model: LanguageModel,
    config: OptimConfig,
    muon_dtype: Callable[[], torch.dtype] = lambda: torch.float32,
) -> list[torch.optim.Optimizer]:
    """Build the optimisers. The trainer sets every learning rate before every step.

    muon_dtype: returns the dtype of Muon's products, the same on all ranks, which agree on it; not
    called for another optimiser. Raises InputError if the config needs a package, a GPU, or weight
    norm that is missing.
    """
    if config.name != "muon":
        return [_make_optimizer(config.name, list(model.parameters()), config)]
    if config.by_gate and model.config.cell == "transformer":
        raise InputError(
            "optim.by_gate cuts the matrices of gates, and a transformer has none; leave it out"
        )
    # The embedding and the decoder are tables of tokens, not maps between features.
    named = list(model.named_parameters())
    matrices = [p for name, p in named if name.startswith("layers.") and p.ndim == 2]
    muon = Muon(
        matrices,
        dtype=muon_dtype(),
        gate_rows=model.config.hidden_size if config.by_gate else None,
        balances_rows=config.balance_rows,
        of_kept_norms=_of_kept_norms(model) if config.keep_norms else (),
        lr=0.0,
        momentum=config.momentum,
        weight_decay=config.weight_decay if "directions" in config.decay_on else 0.0,
    )
    taken = {id(matrix) for matrix in matrices}
    return [muon, _make_rest([(name, p) for name, p in named if id(p) not in taken], config)]


def _of_kept_norms(model: LanguageModel) -> Sequence[nn.Parameter]:
    if found := model.under_weight_norm():
        return found
    raise InputError(
        "optim.keep_norms keeps the lengths of rows under weight norm, and the model has none; "
        "leave it out, or set model.weight_norm true for an mlstm"
    )


def _make_rest(
    named: Sequence[tuple[str, nn.Parameter]], config: OptimConfig
) -> torch.optim.Optimizer:
    """Build AdamW for what Muon leaves, with a group of parameters for each rate.

    The groups keep the order of the model, whose last parameters are the decoder's: checkpoints
    number the moments in this order.
    """
    groups = []
    for name, p in named:
        kind = {"embedding.weight": "embedding", "decoder.weight": "decoder"}.get(
            name, "gains" if ".g_" in name else "biases"
        )
        decay = config.weight_decay if kind in config.decay_on else 0.0
        groups.append({"params": [p], "factor": 1.0, "weight_decay": decay})
    return _make_optimizer("adamw", groups, config)


def _make_optimizer(
    name: str,
    parameters: Sequence[nn.Parameter] | Sequence[Mapping[str, Any]],
    config: OptimConfig,
) -> torch.optim.Optimizer:
    make, betas = KERNELS[config.fused].make, (config.beta1, config.beta2)
    return make(name, parameters, betas=betas, weight_decay=config.weight_decay)
