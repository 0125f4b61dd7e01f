"""The arithmetic between the products of one byte, for CUDA, in Triton.

Letters as in cell.py. Each program takes one lane and BLOCK units. Arrays are in the compute
dtype, the cell state and all arithmetic in fp32. x has rows of 5H: the input's term of m, then of
the gates i f u o; lane b reads row indices[b] of it, or row b where INDEXED is false.
"""

import triton
import triton.language as tl
from torch import Tensor

_LARGEST_BLOCK = 1024


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _gates_at(pointers, real, H: tl.constexpr):
    """Load the values of the gates i f u o at these units, in fp32."""
    i = tl.load(pointers, real).to(tl.float32)
    f = tl.load(pointers + H, real).to(tl.float32)
    u = tl.load(pointers + 2 * H, real).to(tl.float32)
    o = tl.load(pointers + 3 * H, real).to(tl.float32)
    return i, f, u, o


@triton.jit
def _store_gates(pointers, i, f, u, o, real, H: tl.constexpr):
    """Store values for the gates i f u o at these units."""
    tl.store(pointers, i, real)
    tl.store(pointers + H, f, real)
    tl.store(pointers + 2 * H, u, real)
    tl.store(pointers + 3 * H, o, real)


@triton.jit
def _step(products, x, b, gates, c_before, c, h, real, H: tl.constexpr):
    """z = W_h m + x_gates + b;  c = f c + i u;  h = o tanh(c).

    products, b: W_h m and b, each for the gates i f u o; the other arguments are pointers.
    """
    x_i, x_f, x_u, x_o = _gates_at(x, real, H)
    i, f = tl.sigmoid(products[0] + x_i + b[0]), tl.sigmoid(products[1] + x_f + b[1])
    u, o = _tanh(products[2] + x_u + b[2]), tl.sigmoid(products[3] + x_o + b[3])
    new_c = f * tl.load(c_before, real) + i * u
    tl.store(c, new_c, real)
    tl.store(h, o * _tanh(new_c), real)
    _store_gates(gates, i, f, u, o, real, H)


@triton.jit
def _step_back(d_h, gates, c_before, c, dc, dz, real, H: tl.constexpr):
    """From d h compute d z; move d c one byte back."""
    i, f, u, o = _gates_at(gates, real, H)
    tanh_c = _tanh(tl.load(c, real))
    d_c = tl.load(dc, real) + d_h * o * (1 - tanh_c * tanh_c)
    d_i, d_u = d_c * u * i * (1 - i), d_c * i * (1 - u * u)
    d_f = d_c * tl.load(c_before, real) * f * (1 - f)
    _store_gates(dz, d_i, d_f, d_u, d_h * tanh_c * o * (1 - o), real, H)
    tl.store(dc, d_c * f, real)


@triton.jit
def _place(x, indices, H: tl.constexpr, BLOCK: tl.constexpr, INDEXED: tl.constexpr):
    """Return this program's lane, units, which of them exist, and the lane's row of x."""
    lane = tl.program_id(0).to(tl.int64)
    units = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = lane
    if INDEXED:
        row = tl.load(indices + lane)
    return lane, units, units < H, x + row * 5 * H


@triton.jit
def _multiply(
    x, indices, recurrent, m, H: tl.constexpr, BLOCK: tl.constexpr, INDEXED: tl.constexpr
):
    """m = x_m * (W_mh h)"""
    lane, units, real, x = _place(x, indices, H, BLOCK, INDEXED)
    at = lane * H + units
    r = tl.load(recurrent + at, real).to(tl.float32)
    x_m = tl.load(x + units, real).to(tl.float32)
    tl.store(m + at, x_m * r, real)


@triton.jit
def _advance(
    x, indices, z, gates, b, c_before, c, h, H: tl.constexpr, BLOCK: tl.constexpr,
    INDEXED: tl.constexpr,
):  # fmt: skip
    """Advance the state; z: W_h m."""
    lane, units, real, x = _place(x, indices, H, BLOCK, INDEXED)
    at, of_gates = lane * H + units, lane * 4 * H + units
    products, bias = _gates_at(z + of_gates, real, H), _gates_at(b + units, real, H)
    gates, c_before, c, h = gates + of_gates, c_before + at, c + at, h + at
    _step(products, x + H + units, bias, gates, c_before, c, h, real, H)


@triton.jit
def _retreat(dh, dh_next, gates, c_before, c, dc, dx, H: tl.constexpr, BLOCK: tl.constexpr):
    """From d h, of this byte and from the next one, compute d z; move d c one byte back."""
    lane = tl.program_id(0).to(tl.int64)
    units = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = units < H
    at = lane * H + units
    d_h = tl.load(dh + at, real).to(tl.float32) + tl.load(dh_next + at, real).to(tl.float32)
    dz = dx + lane * 5 * H + H + units
    _step_back(d_h, gates + lane * 4 * H + units, c_before + at, c + at, dc + at, dz, real, H)


@triton.jit
def _unmultiply(
    dm, x, indices, recurrent, dx, d_recurrent, m, H: tl.constexpr, BLOCK: tl.constexpr,
    INDEXED: tl.constexpr,
):  # fmt: skip
    """From d m compute the gradients of both factors; m is computed again for d W."""
    lane, units, real, x = _place(x, indices, H, BLOCK, INDEXED)
    at = lane * H + units
    d_m = tl.load(dm + at, real).to(tl.float32)
    x_m = tl.load(x + units, real).to(tl.float32)
    r = tl.load(recurrent + at, real).to(tl.float32)
    tl.store(dx + lane * 5 * H + units, d_m * r, real)
    tl.store(d_recurrent + at, d_m * x_m, real)
    tl.store(m + at, x_m * r, real)


def _launch(kernel, like: Tensor, *arguments: Tensor | None, **constants: bool) -> None:
    """Run a kernel over all lanes and units. like: [B, H], for its shape."""
    B, H = like.shape
    block = min(_LARGEST_BLOCK, triton.next_power_of_2(H))
    kernel[(B, triton.cdiv(H, block))](*arguments, H=H, BLOCK=block, **constants)


def multiply(x: Tensor, indices: Tensor | None, recurrent: Tensor, m: Tensor) -> None:
    """Write m [B, H] from recurrent = W_mh h [B, H]. x: [B, 5H], or [R, 5H] with indices [B]."""
    _launch(_multiply, m, x, indices, recurrent, m, INDEXED=indices is not None)


def advance(
    x: Tensor,
    indices: Tensor | None,
    z: Tensor,
    gates: Tensor,
    b: Tensor,
    c_before: Tensor,
    c: Tensor,
    h: Tensor,
) -> None:
    """Write gates [B, 4H], i f u o, and c and h [B, H], from z = W_h m [B, 4H].

    z: in any dtype; it may be in the memory of gates.
    """
    _launch(_advance, h, x, indices, z, gates, b, c_before, c, h, INDEXED=indices is not None)


def retreat(
    dh: Tensor, dh_next: Tensor, gates: Tensor, c_before: Tensor, c: Tensor, dc: Tensor, dx: Tensor
) -> None:
    """Write d z into dx [B, 5H] after its first H columns; move dc [B, H] one byte back."""
    _launch(_retreat, dc, dh, dh_next, gates, c_before, c, dc, dx)


def unmultiply(
    dm: Tensor,
    x: Tensor,
    indices: Tensor | None,
    recurrent: Tensor,
    dx: Tensor,
    d_recurrent: Tensor,
    m: Tensor,
) -> None:
    """Write the first H columns of dx [B, 5H], d_recurrent and m [B, H] from dm [B, H]."""
    _launch(
        _unmultiply, m, dm, x, indices, recurrent, dx, d_recurrent, m, INDEXED=indices is not None
    )
