"""The dtype of matrix products in training, and the loss scale that fp16 needs."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from model.kernels.cores import multiplies_fast
from model.layers.config import TrainingPrecision
from model.state import DTYPES

from .parallel.distributed import World, name_ranks
from .parallel.exchange import ParallelConfig

log = logging.getLogger(__name__)

_FIRST_SCALE = 2.0**16  # halves when a gradient overflows
LOWEST_SCALE = 2.0**-40  # far below useful values; every recent step overflowed
SCALE_GROWTH_INTERVAL = 1000  # clean steps before the scale doubles (Puri et al. 2018's code)


def agreed_precision(world: World, precision: TrainingPrecision) -> TrainingPrecision:
    """Resolve `auto` to one dtype on all ranks: bf16 if each multiplies it fast, else fp32.

    fp16 is not chosen, since losses then need scaling; the main rank says where it is faster.
    """
    if precision != "auto":
        if world.is_main and not multiplies_fast(DTYPES[precision], world.device):
            log.warning(
                "train.precision %s: slow on this hardware; --train.precision fp32 is faster, "
                "also for a resume",
                precision,
            )
        return precision
    own = torch.tensor(multiplies_fast(torch.bfloat16, world.device), device=world.device)
    fast = [bool(answer) for answer in world.gather(own)]
    if all(fast):
        return "bf16"
    if any(fast) and world.is_main:
        slow = [rank for rank, is_fast in enumerate(fast) if not is_fast]
        log.warning("train.precision auto: fp32 for all, bf16 is slow on %s", name_ranks(slow))
    is_gpu = world.device.type == "cuda"
    if world.is_main and not any(fast) and is_gpu and multiplies_fast(torch.float16, world.device):
        log.warning(
            "train.precision auto: fp32, since this GPU has no bf16; fp16 is faster here, and the "
            "papers used it: --train.precision fp16"
        )
    return "fp32"


def agreed_muon_dtype(world: World, compute_dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of Muon's products, the same on every rank: otherwise weights drift apart.

    compute_dtype: training's. Muon uses bf16 if training does, every rank multiplies bf16 fast, and
    either all ranks or none use AMX tiles, which round at other places. It uses fp16 if training
    does and every rank is a GPU that multiplies fp16 fast. Otherwise it uses fp32.
    """
    is_fast = multiplies_fast(compute_dtype, world.device)
    if compute_dtype == torch.float16 and world.device.type == "cuda":
        own = torch.tensor(is_fast, device=world.device)
        return torch.float16 if world.gather(own).all() else torch.float32
    if compute_dtype != torch.bfloat16:
        return torch.float32
    from model.kernels.amx.library import runs_on_tiles  # only for Muon in bf16

    matrix = torch.empty(0, 0, dtype=torch.bfloat16, device=world.device)
    own = torch.tensor([is_fast, runs_on_tiles(matrix)], device=world.device)
    fast, tiles = world.gather(own).unbind(1)  # bool [ranks] each
    agree = bool(fast.all() and (tiles == tiles[0]).all())
    return torch.bfloat16 if agree else torch.float32


@contextmanager
def sums_in_fp32() -> Iterator[None]:
    """Within this context, a GPU adds up the partial sums of 16-bit products in fp32.

    By default torch lets cuBLAS add them up in 16 bits. A weight gradient is a sum over T x B rows,
    65,536 at the papers' sizes. fp16 would overflow (its largest number is 65,504), and bf16 would
    keep only 8 bits. torch has this setting only for the whole process. The context therefore
    restores it, so that a calling program keeps its own.
    """
    matmul = torch.backends.cuda.matmul
    names = [f"allow_{dtype}_reduced_precision_reduction" for dtype in ("fp16", "bf16")]
    before = {name: (getattr(matmul, name), getattr(matmul, f"{name}_split_k")) for name in names}
    try:
        for name, (_, split) in before.items():
            setattr(matmul, name, (False, split))
        yield
    finally:
        for name, setting in before.items():
            setattr(matmul, name, setting)


def make_loss_scaler(
    precision: TrainingPrecision, world: World, parallel: ParallelConfig
) -> torch.amp.GradScaler:
    """Return a dynamic loss scaler; it does nothing unless something is in fp16.

    Gradients that are sent in fp16 need it, too: their sum over ranks may overflow, and small ones
    become zero.
    """
    sent_in_fp16 = world.size > 1 and parallel.compression == "fp16"
    return torch.amp.GradScaler(
        world.device.type,
        init_scale=_FIRST_SCALE,
        growth_interval=SCALE_GROWTH_INTERVAL,
        enabled=precision == "fp16" or sent_in_fp16,
    )


def overflow_together(
    gradients: Sequence[Tensor], overflow_on_any_rank: Callable[[Tensor], Tensor]
) -> None:
    """Make all gradients NaN if one is not finite, so that every optimiser skips the step.

    Otherwise the loss scaler would decide for each optimiser separately, from its gradients.
    overflow_on_any_rank: as in `Exchange`.
    """
    largest = torch.nn.utils.get_total_norm(gradients, math.inf)
    overflow = overflow_on_any_rank((~largest.isfinite()).float())
    poison = torch.where(overflow > 0, math.nan, 0.0)
    for gradient in gradients:
        gradient.add_(poison)
