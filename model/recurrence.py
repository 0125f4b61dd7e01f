"""A cell over a window: one signature, a ladder of implementations."""

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .cell import mlstm_step
from .fused.cpu import compiled_mlstm, runs_compiled
from .fused.cpu import pack as pack_weights
from .fused.crowding import watch
from .fused.cuda.mlstm import runs_in_triton, triton_mlstm
from .fused.deferred import deferred_mlstm
from .fused.tiles.mlstm import pack as pack_for_tiles
from .fused.tiles.mlstm import runs_on_tiles, tiled_mlstm
from .state import State, accumulation_dtype

Backend = Literal["auto", "reference", "fused"]


class Recurrence(Protocol):
    """What `reference_mlstm` says; packed: what `pack` returned for these weights, if anything."""

    def __call__(
        self,
        x_proj: Tensor,
        state: State,
        w_mh: Tensor,
        w_h: Tensor,
        b: Tensor,
        rows: Tensor | None = None,
        packed: Tensor | None = None,
    ) -> tuple[Tensor, State]: ...


def reference_mlstm(
    x_proj: Tensor,
    state: State,
    w_mh: Tensor,
    w_h: Tensor,
    b: Tensor,
    rows: Tensor | None = None,
    packed: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Apply `mlstm_step` T times under autograd: any device, any dtype.

    x_proj: [T, B, 5H]; or [R, 5H] with rows [T, B], whole numbers below R, that say which row each
    byte reads. The rest as in `mlstm_step`. Returns h [T, B, H] and the last state.
    """
    if rows is not None:
        x_proj = _read_rows(x_proj, rows)
    outputs = []
    for x_proj_t in x_proj:
        state = mlstm_step(x_proj_t, state, w_mh, w_h, b)
        outputs.append(state.h)
    return torch.stack(outputs), state


def fused_mlstm(
    x_proj: Tensor,
    state: State,
    w_mh: Tensor,
    w_h: Tensor,
    b: Tensor,
    rows: Tensor | None = None,
    packed: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes, by the fastest implementation that runs here."""
    if runs_in_triton(w_mh):
        return triton_mlstm(x_proj, state, w_mh, w_h, b, rows)
    watch.look()
    if runs_on_tiles(w_mh):
        return tiled_mlstm(x_proj, state, w_mh, w_h, b, rows, packed)
    if runs_compiled(w_mh):
        return compiled_mlstm(x_proj, state, w_mh, w_h, b, rows, packed)
    if rows is not None:
        x_proj = _read_rows(x_proj, rows)
    return deferred_mlstm(x_proj, state, w_mh, w_h, b)


def describe(backend: str, w_mh: Tensor) -> str:
    """Name what computes the recurrence for a w_mh of this device, dtype and length."""
    if backend == "reference":
        return "reference"
    for runs, name in (
        (runs_in_triton, "Triton"),
        (runs_on_tiles, "compiled for matrix units"),
        (runs_compiled, "compiled"),
    ):
        if runs(w_mh):
            return name
    return "plain torch"


def pack(backend: str, w_mh: Tensor, w_h: Tensor) -> Tensor | None:
    """Prepare the weights for many windows without a gradient; None where that gains nothing."""
    if backend == "reference" or torch.is_grad_enabled():
        return None
    if runs_on_tiles(w_mh):
        return pack_for_tiles(w_mh, w_h)
    return pack_weights(w_mh, w_h) if runs_compiled(w_mh) else None


def _read_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Look rows [T, B] up in table [R, 5H]; each row's gradient adds up in the wider dtype."""
    return F.embedding(rows, table.to(accumulation_dtype(table.dtype))).to(table.dtype)


RECURRENCES: dict[str, Recurrence] = {
    "reference": reference_mlstm,
    "fused": fused_mlstm,
    "auto": fused_mlstm,
}
