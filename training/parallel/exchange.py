"""How several ranks train one model: the settings, and the resulting strategy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch
import torch.distributed as dist

from mlstm_sentiment.bounds import SAVED, Bound, PositiveInt, check_bounds
from mlstm_sentiment.errors import InputError
from model.layers.language_model import LanguageModel
from model.state import DTYPES

from .distributed import World
from .strategy import Exchange

if TYPE_CHECKING:
    from .buckets import LossOfOneToken

Compression = Literal["none", "fp16", "bf16"]
MEGABYTE = 2**20
MOST_MEGABYTES = 1e6  # of a bucket: far above any model, and in bytes a whole number of 64 bits
MOST_SHARE = 1e15  # far above useful values; sums and products of larger ones may overflow a float


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How several ranks work together."""

    compression: Compression = "none"
    """Form in which gradients travel: fp32 (none), fp16 (Puri et al. 2018) or bf16."""
    bucket_cap_mb: Annotated[float, Bound(above=0, max=MOST_MEGABYTES), SAVED] = 25.0
    """Size, in units of 2^20 bytes, at which a bucket of gradients is sent, while backward
    continues."""
    flat: bool = False
    """Send all gradients in one piece after backward, as in 2018, instead of buckets during it."""
    windows_per_step: Annotated[int, Bound(min=1, max=1 << 10)] = 1
    """Windows whose gradients are added up before they are exchanged and the weights updated."""
    lane_groups: PositiveInt = 1
    """Number of micro-batches of a rank's lanes, computed one after the other: the same gradient in
    less memory."""
    shares: Literal["even", "measured"] | tuple[float, ...] = "even"
    """How lanes are divided among ranks: evenly, in proportion to the speed measured at
    checkpoints, or in proportion to these numbers."""
    combine: Literal["mean", "adasum"] = "mean"
    """How the ranks' work is combined: the mean of their gradients, or Adasum (Maleki et al. 2020)
    of their optimisers' steps, for which the number of ranks must be a power of two. The papers'
    rule for the rate then counts the lanes of one rank."""

    def __post_init__(self) -> None:
        check_bounds(self, "parallel.")
        numbers = self.shares if isinstance(self.shares, tuple) else (1.0,)
        if not (min(numbers, default=-1) >= 0 and 0 < max(numbers) <= MOST_SHARE):
            raise InputError(
                f"parallel.shares is {self.shares}; give numbers from 0 to {MOST_SHARE:g}, not "
                "all of them 0"
            )
        self._check_adasum()

    def check_effects(self) -> None:
        """Raise InputError for a setting without effect."""
        whole = self.flat or self.combine == "adasum"
        if whole and self.bucket_cap_mb != type(self).bucket_cap_mb:
            raise InputError(
                f"parallel.bucket_cap_mb is {self.bucket_cap_mb:g}, but all gradients are sent in "
                "one piece, without buckets; leave it out"
            )

    def _check_adasum(self) -> None:
        if self.combine == "mean":
            return
        for key, value in (("compression", self.compression), ("flat", self.flat)):
            if value not in ("none", False):
                raise InputError(
                    f"parallel.combine adasum and parallel.{key} {value} do not work together; "
                    "leave one out"
                )


def make_exchange(
    model: LanguageModel, config: ParallelConfig, world: World, loss_of_one_token: "LossOfOneToken"
) -> Exchange:
    """Return the strategy that combines the ranks' gradients.

    A single process has nothing to exchange. All ranks call it together. Raises InputError if the
    ranks cannot be combined as configured.

    loss_of_one_token: computes any loss whose gradients reach all the tensors it is given.
    """
    if world.size == 1:
        return Exchange(world)
    parameters, is_adasum = list(model.parameters()), config.combine == "adasum"
    if is_adasum or config.flat:  # DDP does so by itself
        for parameter in parameters:  # every rank gets the main rank's
            dist.broadcast(parameter.detach(), src=0)
    if is_adasum:  # every way is imported by the runs that use it
        from .adasum import AdasumExchange

        return AdasumExchange(parameters, world)
    from .buckets import BucketedExchange, FlatExchange

    dtype = DTYPES.get(config.compression, torch.float32)
    if config.flat:
        return FlatExchange(parameters, world, dtype)
    leaves = model.per_gate_parameters()
    return BucketedExchange(leaves, world, dtype, config.bucket_cap_mb, loss_of_one_token)
