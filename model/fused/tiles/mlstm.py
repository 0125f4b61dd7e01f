"""The recurrence on matrix units, with its gradient.

Products of one byte take 16 lanes and 32 units at a time, weight gradients 32 lanes. Other sizes
are padded with zeros to a multiple of these.
"""

import ctypes
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...state import State
from ..recycling import recycled_empty
from ..weight_gradients import PostponedProducts, weight_gradients
from ..window import Inputs, Window, run_window
from . import library, products
from .products import BLOCK, TILE, Rows, blocks_of, multiply_summed


def empty_factor(T: int, B: int, blocks: int) -> Tensor:
    """Return memory for a factor: this many blocks of units, all bytes and lanes deep."""
    return products.empty_factor(T * blocks_of(B), blocks)


class TiledFactors(NamedTuple):
    """The factors of a window's weight gradients, laid out for `multiply_summed`."""

    sizes: tuple[int, int, int]  # T B H
    dz: Tensor
    m: Tensor
    d_recurrent: Tensor
    h_before: Tensor

    def of_w_h(self, rows: slice = slice(None)) -> Tensor:
        """Return these rows of d W_h [4H, H]."""
        H = self.sizes[2]
        start, stop, _ = rows.indices(4 * H)
        gates = range(start // H, -(-stop // H))
        made = self._product(self.dz, self.m, gates, 4)
        return made[start - gates.start * H :][: stop - start]

    def of_w_mh(self, rows: slice = slice(None)) -> Tensor:
        """Return these rows of d W_mh [H, H]."""
        return self._product(self.d_recurrent, self.h_before, range(1), 1)[rows]

    def _product(self, a: Tensor, b: Tensor, parts: range, all_parts: int) -> Tensor:
        T, B, H = self.sizes
        K = blocks_of(H)
        out = recycled_empty(len(parts) * H, H, dtype=a.dtype)
        rows = Rows(parts.start * K, all_parts * K, len(parts), H)
        multiply_summed(a, b, out, rows, depth=T * blocks_of(B))
        return out


RESIDENT = 1 << 20  # bytes of weights that fit into a core's second-level cache beside the rest


class _Window(ctypes.Structure):
    """The struct Window of window.h, which says what each field is."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("T", "B", "H", "threads", "workgroups")),
        *((name, ctypes.c_int64) for name in ("x_row", "x_part", "x_block", "R")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("x", "indices", "w_mh", "w_h", "b", "h0", "c0"),
                *("packed", "narrow", "wide", "state"),
                *("h", "c_last", "c", "recurrent", "gates", "h_before"),
                *("dh", "dh_last", "dx", "sums", "dh0", "dc", "db", "dz", "d_recurrent", "m"),
            )
        ),
    )


class Table(NamedTuple):
    """x as the kernels read it, and its strides."""

    x: Tensor
    R: int  # rows
    x_row: int  # from row to row
    x_part: int  # from the part of m to that of i, and on to f u o
    x_block: int  # from one block of units to the next


class Saved(NamedTuple):
    """What forward keeps for backward; K is the number of blocks of units."""

    c: Tensor  # [T + 1, K, B, 32] fp32, before each byte and at the end
    recurrent: Tensor  # [T, K, B, 32]: W_mh h, the other factor of m
    gates: Tensor  # [T, K, B, 4, 32], after their non-linearities
    h_before: Tensor  # h before each byte, as the right factor of d W_mh


def runs_on_tiles(w_mh: Tensor) -> bool:
    """Return whether the recurrence on matrix units can take a w_mh of this device and dtype."""
    on_cpu = w_mh.device.type == "cpu" and w_mh.dtype == torch.bfloat16
    return on_cpu and library.tile_library() is not None


def tiled_mlstm(window: Window) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes; call it only if `runs_on_tiles`.

    Weights that are not packed yet are packed for this window.
    """
    return run_window(window, _TiledMlstm, _forward)


def pack(w_mh: Tensor, w_h: Tensor) -> Tensor:
    """Arrange the weights as the forward pass multiplies by them."""
    w_mh, w_h = w_mh.detach().contiguous(), w_h.detach().contiguous()
    packed = _empty_panels(len(w_mh))
    _call("pack", (0, 0, len(w_mh)), w_mh=w_mh, w_h=w_h, packed=packed)
    return packed


def count_workgroups(B: int, H: int, threads: int) -> int:
    """Return into how many workgroups, each with its own lanes, the threads are divided.

    The threads of a workgroup share the units and meet twice a byte. The thread with the most work
    should have as little as possible. Among equals, the fewest workgroups are chosen, so that
    weights are read less often; but if the weights fit into every core's cache, the most, which
    meet least.
    """
    lanes, units = blocks_of(B), blocks_of(H)

    def busiest(workgroups: int) -> int:
        return -(-lanes // workgroups) * -(-units // (threads // workgroups))

    possible = [workgroups for workgroups in range(1, threads + 1) if threads % workgroups == 0]
    least = min(map(busiest, possible))
    best = [workgroups for workgroups in possible if busiest(workgroups) == least]
    return best[-1 if 2 * 5 * H * H <= RESIDENT else 0]


def _empty_panels(H: int) -> Tensor:
    return recycled_empty(5 * blocks_of(H) ** 2 * 2 * TILE, dtype=torch.bfloat16)


def _in_blocks(x: Tensor, indices: Tensor | None, H: int) -> Table:
    """Copy a table so that each block of units is contiguous, if its rows are read often enough.

    In the table as given, rows are 10 H bytes apart, so many of them fall into the same cache set.
    """
    if indices is None or indices.numel() < len(x):
        return Table(x, len(x), 5 * H, H, BLOCK)
    R, K = len(x), blocks_of(H)
    padded = F.pad(x.view(R, 5, H), (0, K * BLOCK - H))
    blocks = recycled_empty(K, R, 5, BLOCK, dtype=x.dtype)
    blocks.copy_(padded.view(R, 5, K, BLOCK).permute(2, 0, 1, 3))
    return Table(blocks, R, 5 * BLOCK, BLOCK, R * 5 * BLOCK)


def _empty_saved(T: int, B: int, H: int) -> Saved:
    K, dtype = blocks_of(H), torch.bfloat16
    return Saved(
        recycled_empty(T + 1, K, B, BLOCK, dtype=torch.float32),
        recycled_empty(T, K, B, BLOCK, dtype=dtype),
        recycled_empty(T, K, B, 4, BLOCK, dtype=dtype),
        empty_factor(T, B, K),
    )


def _forward(
    inputs: Inputs, *, packed: Tensor | None = None, saved: Saved | None = None
) -> tuple[Tensor, Tensor, Tensor, Table]:
    """Return h, the last h and c, and x as it was read; fill `saved`, if given."""
    T, B, H = inputs.sizes
    table = _in_blocks(inputs.x, inputs.indices, H)
    h = recycled_empty(T, B, H, dtype=inputs.x.dtype)
    c_last = torch.empty_like(inputs.c0)
    _call(
        "forward",
        (T, B, H),
        table,
        indices=inputs.indices,
        b=inputs.b,
        h0=inputs.h0,
        c0=inputs.c0,
        h=h,
        c_last=c_last,
        packed=pack(inputs.w_mh, inputs.w_h) if packed is None else packed,
        **({} if saved is None else saved._asdict()),
    )
    return h, h[-1].clone(), c_last, table


class _TiledMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, postponed: PostponedProducts | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        inputs = Inputs(*tensors)
        saved = _empty_saved(*inputs.sizes)
        h, last_h, last_c, table = _forward(inputs, saved=saved)
        ctx.set_materialize_grads(False)
        ctx.postponed, ctx.sizes, ctx.strides = postponed, inputs.sizes, table[1:]
        ctx.save_for_backward(inputs.indices, table.x, inputs.w_mh, inputs.w_h, *saved)
        return h, last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, dh: Tensor | None, dh_last: Tensor | None, dc_last: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        indices, x, w_mh, w_h, *kept = ctx.saved_tensors
        saved, table, (T, B, H) = Saved(*kept), Table(x, *ctx.strides), ctx.sizes
        K = blocks_of(H)
        dz, m, d_recurrent = (empty_factor(T, B, n * K) for n in (4, 1, 1))
        factors = TiledFactors(ctx.sizes, dz, m, d_recurrent, saved.h_before)
        dh0 = x.new_empty(B, H)
        dc = saved.c.new_zeros(B, H) if dc_last is None else _contiguous_copy(dc_last)
        of_x = _empty_gradients_of_x(ctx.sizes, None if indices is None else table.R)
        _call(
            "backward",
            ctx.sizes,
            table,
            indices=indices,
            w_mh=w_mh,
            w_h=w_h,
            packed=_empty_panels(H),
            dh=None if dh is None else dh.contiguous(),
            dh_last=None if dh_last is None else dh_last.contiguous(),
            dh0=dh0,
            dc=dc,
            dz=dz,
            m=m,
            d_recurrent=d_recurrent,
            **of_x,
            **saved._asdict(),
        )
        d_w_mh, d_w_h = weight_gradients(factors, ctx.postponed)
        dx, db = _gradients_of_x(of_x, H)
        return None, dx, None, dh0, dc, d_w_mh, d_w_h, db


def _contiguous_copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _empty_gradients_of_x(sizes: tuple[int, int, int], R: int | None) -> dict[str, Tensor]:
    """Return memory for d x and partial sums of d b; if there are R rows, d x is by row."""
    T, B, H = sizes
    K = blocks_of(H)
    if R is None:
        dx = recycled_empty(T, B, 5 * H, dtype=torch.bfloat16)
        return {"dx": dx, "db": dx.new_zeros(blocks_of(B), 4, K, BLOCK, dtype=torch.float32)}
    workgroups = count_workgroups(B, H, torch.get_num_threads())
    return {"sums": recycled_empty(workgroups, K, R, 5, BLOCK, dtype=torch.float32).zero_()}


def _gradients_of_x(made: dict[str, Tensor], H: int) -> tuple[Tensor, Tensor]:
    """Return d x and d b [4H] from backward's results."""
    if "dx" in made:
        return made["dx"], made["db"].sum(0).flatten(1)[:, :H].flatten()
    sums = made["sums"].sum(0).permute(1, 2, 0, 3)  # [R, 5, K, 32]
    dx = sums.flatten(2)[..., :H].flatten(1)  # [R, 5H]
    return dx.to(torch.bfloat16), dx[:, H:].sum(0)


def _call(
    name: str,
    sizes: tuple[int, int, int],
    table: Table | None = None,
    **tensors: Tensor | None,
) -> None:
    """Call a pass of tiles.cpp on the tensors, named as the fields of its struct Window."""
    T, B, H = sizes
    lanes, units, threads = 2 * blocks_of(B), blocks_of(H), torch.get_num_threads()
    given = dict(tensors)
    given["narrow"], given["wide"] = (
        recycled_empty(lanes * n * units * TILE, dtype=torch.bfloat16) for n in (1, 4)
    )
    given["state"] = recycled_empty(units * B * BLOCK, dtype=torch.float32)
    numbers = {} if table is None else table._asdict()
    if table is not None:
        given["x"] = numbers.pop("x")
    pointers = {key: tensor.data_ptr() for key, tensor in given.items() if tensor is not None}
    window = _Window(T, B, H, threads, count_workgroups(B, H, threads), **numbers, **pointers)
    library.call(name, window)
