"""Which dtype the products are in, and the loss scale that fp16 needs."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from model.errors import InputError
from model.fused.weight_gradients import has_fast_bf16

from .parallel.distributed import World
from .parallel.exchange import ParallelConfig

Precision = Literal["auto", "fp32", "bf16", "fp16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FIRST_SCALE = 2.0**16
HIGHEST_SCALE = 2.0**100  # far above any use; fp32, in which it is kept, ends at 2^128
SCALE_GROWTH_INTERVAL = 1000  # clean steps before the scale doubles (Puri et al. 2018's code)


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Replace `auto`: bf16 where the hardware multiplies it faster than fp32, else fp32."""
    if precision != "auto":
        return precision
    return "bf16" if has_fast_bf16(device) else "fp32"


@contextmanager
def sums_in_fp32() -> Iterator[None]:
    """Hold products in 16 bits on a GPU whose partial sums are added up in fp32.

    torch lets cuBLAS add them up in 16 bits. A weight gradient sums over T x B rows, 65,536 of them
    at the papers' sizes: fp16 ends at 65,504, bf16 keeps 8 bits. The setting is the process's, not
    a product's: it is put back, so that a program which trains with us keeps its own outside.
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
    precision: Precision,
    world: World,
    parallel: ParallelConfig,
    first_scale: float = FIRST_SCALE,
) -> torch.amp.GradScaler:
    """Return a dynamic loss scaler; it passes everything through where nothing is fp16.

    Gradients that travel in fp16 need it as well: a sum over ranks may overflow, small ones vanish.
    Raises InputError where the ranks' gradients must not be scaled.
    """
    parallel.check_precision(precision)
    travels = world.size > 1 and parallel.compression == "fp16"
    return torch.amp.GradScaler(
        world.device.type,
        init_scale=first_scale,
        growth_interval=SCALE_GROWTH_INTERVAL,
        enabled=precision == "fp16" or travels,
    )


def overflow_together(gradients: Sequence[Tensor], on_any_rank: Callable[[Tensor], Tensor]) -> None:
    """Make all gradients NaN where one is not finite, so that the step is skipped as a whole.

    A loss scaler judges each optimiser by its own gradients alone. on_any_rank: as in `Exchange`.
    """
    largest = torch.nn.utils.get_total_norm(gradients, math.inf)
    found = on_any_rank((~largest.isfinite()).float())
    poison = torch.where(found > 0, math.nan, 0.0)
    for gradient in gradients:
        gradient.add_(poison)


def restore_loss_scaler(scaler: torch.amp.GradScaler, saved: object, path: Path) -> None:
    """Take up the scale from the state that was saved, empty where losses were not scaled.

    Raises InputError, naming the file, where it is no such state.
    """
    if saved == {}:
        return
    state = saved if isinstance(saved, dict) else {}
    scale, clean_steps = state.get("scale"), state.get("_growth_tracker")
    scales = isinstance(scale, float) and 0 < scale < math.inf
    counts = isinstance(clean_steps, int) and 0 <= clean_steps <= SCALE_GROWTH_INTERVAL
    if not (scales and counts):
        raise InputError(f"{path}: loss_scaler is {saved!r}; is the file damaged?")
    scaler.load_state_dict(scaler.state_dict() | {"scale": scale, "_growth_tracker": clean_steps})
