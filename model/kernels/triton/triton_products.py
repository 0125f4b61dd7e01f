"""Kernels that also multiply: two a byte each way, instead of two plus two cuBLAS products.

    forward     multiply    r = W_mh h;  m = x_m * r
                advance     z = W_h m + x + b;  from it gates, c, h
    backward    unmultiply  d m = d z W_h;  from it d x_m, d r, m
                retreat     d h = d r W_mh + what the loss adds;  from it d z of the byte before

Letters and dtypes as in kernels.py; products add up in fp32, and neither z nor d m is
rounded. Each program takes a tile of lanes and units. Indices beyond the last lane or unit wrap
around, so masks are needed only at the ends of products and for stores.

A GPU that has programmatic dependent launch starts a kernel before the previous one has ended, and
so hides the launch. The kernel waits for the results of the previous one before it reads anything.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.compiler import max_shared_mem

from .kernels import gates_at, step, step_back

ENOUGH = 100  # programs: about one for each multiprocessor of a large GPU


class Tiles(NamedTuple):
    """Block sizes, warps and stages of the kernels; nothing to do with Intel AMX's tiles."""

    lanes: int
    units: int
    depth: int  # terms of a product that are read at once
    warps: int
    stages: int  # such reads in flight

    def programs(self, lanes: int, units: int) -> int:
        """Return how many programs a kernel has."""
        return triton.cdiv(lanes, self.lanes) * triton.cdiv(units, self.units)

    def shared_bytes(self, itemsize: int) -> int:
        """Return the shared memory of `advance`, which needs most: m, and weights of four gates."""
        return self.stages * self.depth * (self.lanes + 4 * self.units) * itemsize


LARGEST_FIRST = (
    Tiles(128, 64, 64, warps=8, stages=3),
    Tiles(128, 32, 64, warps=8, stages=3),
    Tiles(64, 32, 64, warps=4, stages=4),
    Tiles(64, 16, 64, warps=4, stages=4),
    Tiles(32, 32, 64, warps=4, stages=4),
    Tiles(16, 32, 64, warps=4, stages=4),
    Tiles(16, 16, 64, warps=4, stages=3),
)


def candidates(h: Tensor) -> list[Tiles]:
    """Return the tiles that fit h [B, H] and its device, the largest first."""
    fitting = [tiles for tiles in LARGEST_FIRST if tiles.lanes <= max(2 * len(h), 16)]
    if h.dtype.itemsize == 4:
        fitting = [tiles._replace(depth=tiles.depth // 2) for tiles in fitting]
    if h.device.type == "cuda":
        most = max_shared_mem(h.device.index)
        fitting = [tiles for tiles in fitting if tiles.shared_bytes(h.element_size()) <= most]
    return fitting


def tiles_for(h: Tensor) -> Tiles:
    """Return the largest tiles for h [B, H] that still make ENOUGH programs, else the smallest."""
    fitting = candidates(h)
    return next((tiles for tiles in fitting if tiles.programs(*h.shape) >= ENOUGH), fitting[-1])


@triton.jit
def _tile(B, H: tl.constexpr, LANES: tl.constexpr, UNITS: tl.constexpr):
    """Return lanes [LANES, 1], units [1, UNITS], both wrapped around, and which pairs are real."""
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)[:, None]
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)[None, :]
    real = (lanes < B) & (units < H)
    if H % UNITS:
        units = units % H
    return (lanes % B).to(tl.int64), units.to(tl.int64), real


@triton.jit
def _row(x, indices, lanes, H: tl.constexpr, INDEXED: tl.constexpr):
    """Return where the rows of x begin that the lanes read."""
    rows = lanes
    if INDEXED:
        rows = tl.load(indices + lanes)
    return x + rows * 5 * H


@triton.jit
def _load(pointers, in_range, EVEN: tl.constexpr):
    """Load the next terms of a product; zeros beyond its end."""
    return tl.load(pointers) if EVEN else tl.load(pointers, in_range, other=0.0)


@triton.jit
def _product(
    rows, columns, LANES: tl.constexpr, UNITS: tl.constexpr, K: tl.constexpr,
    STRIDE: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Return sums of K products in fp32, [LANES, UNITS].

    rows: pointers [LANES, 1] to dense factors; columns: [1, UNITS] to factors STRIDE apart.
    """
    at = tl.arange(0, DEPTH)
    rows, columns = rows + at[None, :], columns + at[:, None] * STRIDE
    total = tl.zeros((LANES, UNITS), tl.float32)
    for first in range(0, K, DEPTH):
        in_range = first + at < K
        a = _load(rows, in_range[None, :], K % DEPTH == 0)
        w = _load(columns, in_range[:, None], K % DEPTH == 0)
        total = tl.dot(a, w, total, input_precision="ieee")
        rows += DEPTH
        columns += DEPTH * STRIDE
    return total


@triton.jit
def _multiply(
    h, w_mh, x, indices, recurrent, m, B, H: tl.constexpr, LANES: tl.constexpr,
    UNITS: tl.constexpr, DEPTH: tl.constexpr, INDEXED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """r = W_mh h;  m = x_m * r"""
    lanes, units, real = _tile(B, H, LANES, UNITS)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    r = _product(h + lanes * H, w_mh + units * H, LANES, UNITS, H, 1, DEPTH)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    r = r.to(recurrent.dtype.element_ty)
    x_m = tl.load(_row(x, indices, lanes, H, INDEXED) + units).to(tl.float32)
    at = lanes * H + units
    tl.store(recurrent + at, r, real)
    tl.store(m + at, x_m * r.to(tl.float32), real)


@triton.jit
def _advance(
    m, w_h, x, indices, gates, b, c_before, c, h, B, H: tl.constexpr, LANES: tl.constexpr,
    UNITS: tl.constexpr, DEPTH: tl.constexpr, INDEXED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Advance the state from m."""
    lanes, units, real = _tile(B, H, LANES, UNITS)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    terms = tl.arange(0, DEPTH)
    rows, columns = m + lanes * H + terms[None, :], w_h + units * H + terms[:, None]
    z_i = tl.zeros((LANES, UNITS), tl.float32)
    z_f = tl.zeros((LANES, UNITS), tl.float32)
    z_u = tl.zeros((LANES, UNITS), tl.float32)
    z_o = tl.zeros((LANES, UNITS), tl.float32)
    for first in range(0, H, DEPTH):
        in_range = first + terms < H
        a, in_range_w = _load(rows, in_range[None, :], H % DEPTH == 0), in_range[:, None]
        w_i = _load(columns, in_range_w, H % DEPTH == 0)
        w_f = _load(columns + H * H, in_range_w, H % DEPTH == 0)
        w_u = _load(columns + 2 * H * H, in_range_w, H % DEPTH == 0)
        w_o = _load(columns + 3 * H * H, in_range_w, H % DEPTH == 0)
        z_i = tl.dot(a, w_i, z_i, input_precision="ieee")
        z_f = tl.dot(a, w_f, z_f, input_precision="ieee")
        z_u = tl.dot(a, w_u, z_u, input_precision="ieee")
        z_o = tl.dot(a, w_o, z_o, input_precision="ieee")
        rows += DEPTH
        columns += DEPTH
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    at, of_gates = lanes * H + units, lanes * 4 * H + units
    x = _row(x, indices, lanes, H, INDEXED) + H + units
    bias = gates_at(b + units, units < H, H)
    gates, c_before, c, h = gates + of_gates, c_before + at, c + at, h + at
    step((z_i, z_f, z_u, z_o), x, bias, gates, c_before, c, h, real, H)


@triton.jit
def _unmultiply(
    dx, w_h, x, indices, recurrent, d_recurrent, m, B, H: tl.constexpr, LANES: tl.constexpr,
    UNITS: tl.constexpr, DEPTH: tl.constexpr, INDEXED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """From d z compute d m and the gradients of its factors; m is computed again for d W."""
    lanes, units, real = _tile(B, H, LANES, UNITS)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    d_m = _product(dx + lanes * 5 * H + H, w_h + units, LANES, UNITS, 4 * H, H, DEPTH)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    at = lanes * H + units
    x_m = tl.load(_row(x, indices, lanes, H, INDEXED) + units).to(tl.float32)
    r = tl.load(recurrent + at).to(tl.float32)
    tl.store(dx + lanes * 5 * H + units, d_m * r, real)
    tl.store(d_recurrent + at, d_m * x_m, real)
    tl.store(m + at, x_m * r, real)


@triton.jit
def _retreat(
    d_recurrent, w_mh, dh, gates, c_before, c, dc, dx, B, H: tl.constexpr, LANES: tl.constexpr,
    UNITS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """From d h, of this byte and through d r of the next, compute d z; move d c one byte back."""
    lanes, units, real = _tile(B, H, LANES, UNITS)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    d_h = _product(d_recurrent + lanes * H, w_mh + units, LANES, UNITS, H, H, DEPTH)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    at = lanes * H + units
    d_h += tl.load(dh + at).to(tl.float32)
    dz = dx + lanes * 5 * H + H + units
    step_back(d_h, gates + lanes * 4 * H + units, c_before + at, c + at, dc + at, dz, real, H)


def _launch(
    kernel, tiles: Tiles, like: Tensor, *arguments: Tensor | None, **constants: bool
) -> None:
    """Run a kernel over all lanes and units. like: [B, H], for its shape and device."""
    B, H = like.shape
    grid = triton.cdiv(B, tiles.lanes), triton.cdiv(H, tiles.units)
    early = launches_early(like.device)
    kernel[grid](
        *arguments, B, H=H, LANES=tiles.lanes, UNITS=tiles.units, DEPTH=tiles.depth, EARLY=early,
        num_warps=tiles.warps, num_stages=tiles.stages, **constants,
        **({"launch_pdl": True} if early else {}),
    )  # fmt: skip


@cache
def launches_early(device: torch.device) -> bool:
    """Whether a device has programmatic dependent launch: NVIDIA's GPUs since Hopper."""
    on_nvidia = device.type == "cuda" and torch.version.hip is None
    return on_nvidia and torch.cuda.get_device_capability(device) >= (9, 0)


def multiply(
    tiles: Tiles,
    h: Tensor,
    w_mh: Tensor,
    x: Tensor,
    indices: Tensor | None,
    recurrent: Tensor,
    m: Tensor,
) -> None:
    """Write recurrent = W_mh h and m [B, H]. x: [B, 5H], or [R, 5H] with indices [B]."""
    indexed = indices is not None
    _launch(_multiply, tiles, m, h, w_mh, x, indices, recurrent, m, INDEXED=indexed)


def advance(
    tiles: Tiles,
    m: Tensor,
    w_h: Tensor,
    x: Tensor,
    indices: Tensor | None,
    gates: Tensor,
    b: Tensor,
    c_before: Tensor,
    c: Tensor,
    h: Tensor,
) -> None:
    """Write gates [B, 4H], i f u o, and c and h [B, H]; c may be in the memory of c_before."""
    indexed = indices is not None
    _launch(_advance, tiles, h, m, w_h, x, indices, gates, b, c_before, c, h, INDEXED=indexed)


def unmultiply(
    tiles: Tiles,
    dx: Tensor,
    w_h: Tensor,
    x: Tensor,
    indices: Tensor | None,
    recurrent: Tensor,
    d_recurrent: Tensor,
    m: Tensor,
) -> None:
    """Write the first H columns of dx [B, 5H], d_recurrent and m [B, H] from its last 4H, d z."""
    arguments = dx, w_h, x, indices, recurrent, d_recurrent, m
    _launch(_unmultiply, tiles, m, *arguments, INDEXED=indices is not None)


def retreat(
    tiles: Tiles,
    d_recurrent: Tensor,
    w_mh: Tensor,
    dh: Tensor,
    gates: Tensor,
    c_before: Tensor,
    c: Tensor,
    dc: Tensor,
    dx: Tensor,
) -> None:
    """Write d z into dx [B, 5H] after its first H columns; move dc [B, H] one byte back.

    d_recurrent: of the next byte. dh: the rest of the gradient of h [B, H].
    """
    _launch(_retreat, tiles, dc, d_recurrent, w_mh, dh, gates, c_before, c, dc, dx)
