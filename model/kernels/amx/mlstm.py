"""The recurrence on Intel AMX, with its gradient.

Products of one byte take 16 lanes and 32 units at a time, weight gradients 32 lanes. Other sizes
are padded with zeros to a multiple of these.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...state import State
from ..compilation import struct
from ..memory_pool import pooled_empty
from ..weight_gradients import DeferredWeightGradients, weight_gradients
from ..window import Inputs, RecurrenceInput, run_window
from . import library, products
from .products import BLOCK, TILE, Rows, blocks_of, multiply_summed


def _empty_factor(T: int, B: int, blocks: int) -> Tensor:
    """Return memory for a factor: `blocks` blocks of units wide, all bytes and lanes deep."""
    return products.empty_factor(T * blocks_of(B), blocks)


class _TiledFactors(NamedTuple):
    """The factors of a window's weight gradients, laid out for `multiply_summed`."""

    sizes: tuple[int, int, int]  # T B H
    dz: Tensor
    m: Tensor
    d_recurrent: Tensor
    h_before: Tensor

    def grad_w_h(self, rows: slice = slice(None)) -> Tensor:
        H = self.sizes[2]
        start, stop, _ = rows.indices(4 * H)
        gates = range(start // H, -(-stop // H))
        product = self._product(self.dz, self.m, gates, 4)
        return product[start - gates.start * H :][: stop - start]

    def grad_w_mh(self, rows: slice = slice(None)) -> Tensor:
        return self._product(self.d_recurrent, self.h_before, range(1), 1)[rows]

    def _product(self, a: Tensor, b: Tensor, parts: range, all_parts: int) -> Tensor:
        T, B, H = self.sizes
        K = blocks_of(H)
        out = pooled_empty(len(parts) * H, H, dtype=a.dtype)
        rows = Rows(parts.start * K, all_parts * K, len(parts), H)
        multiply_summed(a, b, out, rows, depth=T * blocks_of(B))
        return out

    def grad_w_x(self, d_x_m: Tensor, x: Tensor) -> Tensor:
        """Return d W_x [5H, E] of the inputs x [T, B in whole blocks, E].

        d_x_m: the gradient of the inputs' term of m, as a left factor.
        """
        T, B, H = self.sizes
        K, E, depth = blocks_of(H), x.shape[-1], T * blocks_of(B)
        inputs = products.lay_right(x.flatten(0, 1), summed=True)
        out = pooled_empty(5 * H, E, dtype=x.dtype)
        multiply_summed(d_x_m, inputs, out[:H], Rows(0, K, 1, H), depth)
        multiply_summed(self.dz, inputs, out[H:], Rows(0, 4 * K, 4, H), depth)
        return out


_RESIDENT = 1 << 20  # bytes of weights that fit in L2 with the rest
# Up to these sizes, inputs are projected byte by byte (experiments/speed/README.md). Every byte
# then reads all of w_x, which pays off with many lanes. The number of lanes must not decide: a text
# that is read alone, and lanes divided between ranks, would be rounded differently.
MOST_PROJECTED = 5 * 1024 * 1024  # elements of w_x in training, where lanes are many
MOST_INPUTS = 128  # E without a gradient, where lanes may be few


_Window = struct(  # of window.h
    "T B H threads workgroups x_row x_part x_block R E",
    "x w_x inputs indices w_mh w_h b h0 c0 packed packed_x narrow wide d_x_m_rows state "
    "h c_last c recurrent gates h_before dh dh_last dx sums dh0 dc db dz d_recurrent m d_x_m",
)


class _Read(NamedTuple):
    """x as the kernels read it: tensors and numbers by their names in the struct Window."""

    tensors: dict[str, Tensor]
    numbers: dict[str, int]


class _Saved(NamedTuple):
    """What forward keeps for backward; K is the number of blocks of units."""

    c: Tensor  # [T + 1, K, B, 32] fp32, before each byte and at the end
    recurrent: Tensor  # [T, K, B, 32]: W_mh h, the other factor of m
    gates: Tensor  # [T, K, B, 4, 32], after their non-linearities
    h_before: Tensor  # h before each byte, as the right factor of d W_mh


def tiled_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes; call it only if `runs_on_tiles`.

    Weights that are not packed yet are packed for this window.
    """
    w_x = window.w_x
    if w_x is not None:
        w_x = w_x.to(window.weights.w_mh.dtype).contiguous()
    learn, infer = partial(_TiledMlstm.apply, w_x), partial(_forward, w_x=w_x)
    return run_window(window, learn, infer, projects=True)


def projects_on_tiles(w_x: Tensor) -> bool:
    """Return whether `tiled_mlstm` should project inputs by these weights itself.

    It then projects the inputs of one byte at a time, and writes neither the projected inputs
    [T, B, 5H] nor their gradient to memory.
    """
    if torch.is_grad_enabled():
        return w_x.numel() <= MOST_PROJECTED
    return w_x.shape[1] <= MOST_INPUTS


def pack(w_mh: Tensor, w_h: Tensor, w_x: Tensor | None = None) -> Tensor:
    """Arrange the weights as the forward pass multiplies by them."""
    w_mh, w_h = w_mh.detach().contiguous(), w_h.detach().contiguous()
    w_x = w_h[:, :0] if w_x is None else w_x.detach().to(w_h.dtype).contiguous()
    H, E = len(w_mh), w_x.shape[1]
    packed = pooled_empty(_panels(H, E), dtype=torch.bfloat16)
    of_x = packed[_panels_of_recurrence(H) :]
    _call("pack", (0, 0, H), {"E": E}, w_mh=w_mh, w_h=w_h, w_x=w_x, packed=packed, packed_x=of_x)
    return packed


def count_workgroups(B: int, H: int, threads: int) -> int:
    """Return the number of workgroups of threads; each has its own lanes.

    The threads of a workgroup share the units and synchronize twice a byte. The thread with most
    work should have as little as possible. Among equals, the fewest workgroups are chosen, so that
    weights are read less often; but if the weights fit into every core's cache, the most, which
    synchronize least.
    """
    lanes, units = blocks_of(B), blocks_of(H)

    def busiest(workgroups: int) -> int:
        return -(-lanes // workgroups) * -(-units // (threads // workgroups))

    possible = [workgroups for workgroups in range(1, threads + 1) if threads % workgroups == 0]
    least = min(map(busiest, possible))
    best = [workgroups for workgroups in possible if busiest(workgroups) == least]
    return best[-1 if 2 * 5 * H * H <= _RESIDENT else 0]


def _panels_of_recurrence(H: int) -> int:
    return 5 * blocks_of(H) ** 2 * 2 * TILE


def _panels(H: int, E: int) -> int:
    """Return how many elements all panels have, those of E inputs last."""
    return _panels_of_recurrence(H) + 5 * blocks_of(H) * blocks_of(E) * 2 * TILE


def _in_blocks(x: Tensor, indices: Tensor | None, H: int) -> _Read:
    """Copy a table so that each block of units is contiguous, if its rows are read often enough.

    In the table as given, rows are 10 H bytes apart, so many of them fall into the same cache set.
    """
    R, K = len(x), blocks_of(H)
    if indices is None or indices.numel() < R:
        return _Read({"x": x}, {"R": R, "x_row": 5 * H, "x_part": H, "x_block": BLOCK})
    padded = F.pad(x.view(R, 5, H), (0, K * BLOCK - H))
    blocks = pooled_empty(K, R, 5, BLOCK, dtype=x.dtype)
    blocks.copy_(padded.view(R, 5, K, BLOCK).permute(2, 0, 1, 3))
    strides = {"x_row": 5 * BLOCK, "x_part": BLOCK, "x_block": R * 5 * BLOCK}
    return _Read({"x": blocks}, {"R": R, **strides})


def _to_project(x: Tensor, w_x: Tensor) -> _Read:
    """Arrange inputs x [T, B, E], to be projected byte by byte; D is their number in blocks.

    x: [T, B in whole blocks, E], padded with zeros. inputs: tiles [T, 2 blocks of B, D].
    """
    T, B, E = x.shape
    D, rows = blocks_of(E), blocks_of(B) * BLOCK
    x = F.pad(x, (0, 0, 0, rows - B))
    halves = F.pad(x, (0, D * BLOCK - E)).view(T, rows // 16, 16, D, BLOCK)
    inputs = pooled_empty(T, rows // 16, D, 16, BLOCK, dtype=x.dtype)
    inputs.copy_(halves.transpose(2, 3))
    return _Read({"x": x, "inputs": inputs, "w_x": w_x}, {"E": E})


def _empty_saved(T: int, B: int, H: int) -> _Saved:
    K, dtype = blocks_of(H), torch.bfloat16
    return _Saved(
        pooled_empty(T + 1, K, B, BLOCK, dtype=torch.float32),
        pooled_empty(T, K, B, BLOCK, dtype=dtype),
        pooled_empty(T, K, B, 4, BLOCK, dtype=dtype),
        _empty_factor(T, B, K),
    )


def _forward(
    inputs: Inputs,
    *,
    w_x: Tensor | None = None,
    packed: Tensor | None = None,
    saved: _Saved | None = None,
) -> tuple[Tensor, Tensor, Tensor, _Read]:
    """Return h, the last h and c, and x as it was read; fill `saved`, if given."""
    T, B, H = inputs.sizes
    x, indices = inputs.x, inputs.indices
    read = _in_blocks(x, indices, H) if w_x is None else _to_project(x, w_x)
    if packed is None or (w_x is not None and len(packed) != _panels(H, w_x.shape[1])):
        packed = pack(inputs.w_mh, inputs.w_h, w_x)
    h = pooled_empty(T, B, H, dtype=x.dtype)
    c_last = torch.empty_like(inputs.c0)
    _call(
        "forward",
        (T, B, H),
        read.numbers,
        indices=indices,
        b=inputs.b,
        h0=inputs.h0,
        c0=inputs.c0,
        h=h,
        c_last=c_last,
        packed=packed,
        packed_x=packed[_panels_of_recurrence(H) :],
        **read.tensors,
        **({} if saved is None else saved._asdict()),
    )
    return h, h[-1].clone(), c_last, read


class _TiledMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, w_x: Tensor | None, deferred: DeferredWeightGradients | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        inputs = Inputs(*tensors)
        saved = _empty_saved(*inputs.sizes)
        h, last_h, last_c, read = _forward(inputs, w_x=w_x, saved=saved)
        ctx.set_materialize_grads(False)
        ctx.deferred, ctx.sizes = deferred, inputs.sizes
        ctx.names, ctx.numbers = list(read.tensors), read.numbers
        read_tensors = read.tensors.values()
        ctx.save_for_backward(inputs.indices, inputs.w_mh, inputs.w_h, *saved, *read_tensors)
        return h, last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, dh: Tensor | None, dh_last: Tensor | None, dc_last: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        indices, w_mh, w_h, *rest = ctx.saved_tensors
        fields = len(_Saved._fields)
        saved = _Saved(*rest[:fields])
        read = _Read(dict(zip(ctx.names, rest[fields:], strict=True)), ctx.numbers)
        (T, B, H), K = ctx.sizes, blocks_of(ctx.sizes[2])
        dz, m, d_recurrent = (_empty_factor(T, B, n * K) for n in (4, 1, 1))
        factors = _TiledFactors(ctx.sizes, dz, m, d_recurrent, saved.h_before)
        dh0 = w_h.new_empty(B, H)
        dc = saved.c.new_zeros(B, H)
        if dc_last is not None:
            dc.copy_(dc_last)
        of_x = _empty_gradients_of_x(ctx.sizes, read, indices)
        _call(
            "backward",
            ctx.sizes,
            read.numbers,
            indices=indices,
            w_mh=w_mh,
            w_h=w_h,
            packed=pooled_empty(_panels(H, 0), dtype=torch.bfloat16),
            dh=None if dh is None else dh.contiguous(),
            dh_last=None if dh_last is None else dh_last.contiguous(),
            dh0=dh0,
            dc=dc,
            dz=dz,
            m=m,
            d_recurrent=d_recurrent,
            **read.tensors,
            **of_x,
            **saved._asdict(),
        )
        d_w_x = factors.grad_w_x(of_x["d_x_m"], read.tensors["x"]) if "d_x_m" in of_x else None
        d_w_mh, d_w_h = weight_gradients(factors, ctx.deferred)
        dx, db = _gradients_of_x(of_x, H)
        return d_w_x, None, dx, None, dh0, dc, d_w_mh, d_w_h, db


def _empty_gradients_of_x(
    sizes: tuple[int, int, int], read: _Read, indices: Tensor | None
) -> dict[str, Tensor]:
    """Return memory for d x and partial sums of d b; with indices, d x is by row of the table."""
    T, B, H = sizes
    K, x = blocks_of(H), read.tensors["x"]
    if indices is not None:
        workgroups = count_workgroups(B, H, torch.get_num_threads())
        shape = (workgroups, K, read.numbers["R"], 5, BLOCK)
        return {"sums": pooled_empty(*shape, dtype=torch.float32).zero_()}
    buffers = {
        "dx": pooled_empty(T, B, x.shape[-1], dtype=x.dtype),
        "db": torch.zeros(blocks_of(B), 4, K, BLOCK, dtype=torch.float32),
    }
    if (inputs := read.tensors.get("inputs")) is not None:
        _, lanes, D, *_ = inputs.shape
        buffers |= {
            "d_x_m": _empty_factor(T, B, K),
            "packed_x": pooled_empty(K * 12 * D * TILE, dtype=x.dtype),
            "d_x_m_rows": pooled_empty(K * lanes * TILE, dtype=x.dtype),
        }
    return buffers


def _gradients_of_x(buffers: dict[str, Tensor], H: int) -> tuple[Tensor, Tensor]:
    """Return d x and d b [4H] from backward's results."""
    if "dx" in buffers:
        return buffers["dx"], buffers["db"].sum(0).flatten(1)[:, :H].flatten()
    sums = buffers["sums"].sum(0).permute(1, 2, 0, 3)  # [R, 5, K, 32]
    dx = sums.flatten(2)[..., :H].flatten(1)  # [R, 5H]
    return dx.to(torch.bfloat16), dx[:, H:].sum(0)


def _call(
    name: str, sizes: tuple[int, int, int], numbers: dict[str, int], **tensors: Tensor | None
) -> None:
    """Call a pass of tiles.cpp on tensors and numbers, named as the fields of the struct Window."""
    _, B, H = sizes
    lanes, units, threads = 2 * blocks_of(B), blocks_of(H), torch.get_num_threads()
    narrow, wide = (pooled_empty(lanes * n * units * TILE, dtype=torch.bfloat16) for n in (1, 4))
    tensors |= {"narrow": narrow, "wide": wide}
    tensors["state"] = pooled_empty(units * B * BLOCK, dtype=torch.float32)
    workgroups = count_workgroups(B, H, threads)
    library.call(name, _Window(*sizes, threads, workgroups, **numbers, **tensors))
