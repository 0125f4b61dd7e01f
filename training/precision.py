"""The dtype of matrix products in training, and the loss scale that fp16 needs."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from model.bounds import Bound, PositiveFloat, fill
from model.fused.cores import has_amx, has_instructions
from model.layers.config import TrainingPrecision

from .parallel.distributed import World
from .parallel.exchange import ParallelConfig

FIRST_SCALE = 2.0**16  # halves when a gradient overflows
LOWEST_SCALE = 2.0**-40  # far below any use: no step was clean for a hundred tries
SCALE_GROWTH_INTERVAL = 1000  # clean steps before the scale doubles (Puri et al. 2018's code)


def resolve_precision(precision: TrainingPrecision, device: torch.device) -> TrainingPrecision:
    """Replace `auto` by bf16 if the hardware multiplies it faster than fp32, else by fp32."""
    if precision != "auto":
        return precision
    return "bf16" if has_fast_bf16(device) else "fp32"


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether the device multiplies bf16 faster than fp32.

    So do tensor cores (Ampere and later), Intel AMX and AVX-512's bf16 instructions: on AMD's
    Zen 5 a training step in bf16 is faster, too (experiments/speed).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return has_amx() or has_instructions("avx512_bf16")


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
        init_scale=FIRST_SCALE,
        growth_interval=SCALE_GROWTH_INTERVAL,
        enabled=precision == "fp16" or sent_in_fp16,
    )


def overflow_together(gradients: Sequence[Tensor], on_any_rank: Callable[[Tensor], Tensor]) -> None:
    """Make all gradients NaN if one is not finite, so that every optimiser skips the step.

    Otherwise a loss scaler would decide for each optimiser alone, from its own gradients.
    on_any_rank: as in `Exchange`.
    """
    largest = torch.nn.utils.get_total_norm(gradients, math.inf)
    found = on_any_rank((~largest.isfinite()).float())
    poison = torch.where(found > 0, math.nan, 0.0)
    for gradient in gradients:
        gradient.add_(poison)


@dataclass(frozen=True)
class LossScale:
    """What a checkpoint keeps of a loss scaler, by torch's names."""

    OTHER_KEYS: ClassVar = True
    scale: PositiveFloat
    _growth_tracker: Annotated[int, Bound(min=0, max=SCALE_GROWTH_INTERVAL)]


def restore_loss_scaler(scaler: torch.amp.GradScaler, saved: object, path: Path) -> None:
    """Restore the scale from a checkpoint.

    saved: empty if losses were not scaled. Raises InputError, with the file's name, if it is not
    the state of a loss scaler.
    """
    if saved == {}:
        return
    state = fill(LossScale, saved, path, "loss_scaler.")
    scaler.load_state_dict(scaler.state_dict() | vars(state))
