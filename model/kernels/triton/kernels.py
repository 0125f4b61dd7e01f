"""The arithmetic between the products of one byte, for CUDA, in Triton.

Letters as in cell.py. Each program takes one lane and BLOCK units. Arrays are in the compute
dtype, the cell state and all arithmetic in fp32. x has rows of 5H: the input's term of m, then of
the gates i f u o; lane b reads row indices[b] of it, or row b where indices is None.
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
def _place(x, indices, H: tl.constexpr, BLOCK: tl.constexpr):
    """Return this program's lane, units, which of them exist, and the lane's row of x."""
    lane = tl.program_id(0).to(tl.int64)
    units = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = lane
    if indices is not None:
        row = tl.load(indices + lane)
    return lane, units, units < H, x + row * 5 * H


@triton.jit
def multiply(x, indices, recurrent, m, H: tl.constexpr, BLOCK: tl.constexpr):
    """Write m [B, H] = x_m * (W_mh h) from recurrent = W_mh h [B, H]."""
    lane, units, real, x = _place(x, indices, H, BLOCK)
    at = lane * H + units
    r = tl.load(recurrent + at, real).to(tl.float32)
    x_m = tl.load(x + units, real).to(tl.float32)
    tl.store(m + at, x_m * r, real)


@triton.jit
def advance(x, indices, z, gates, b, c_before, c, h, H: tl.constexpr, BLOCK: tl.constexpr):
    """Write gates [B, 4H], i f u o, and c and h [B, H], from z = W_h m [B, 4H] in any dtype.

    z = W_h m + x_gates + b;  c = f c + i u;  h = o tanh(c). z may be in the memory of gates.
    """
    lane, units, real, x = _place(x, indices, H, BLOCK)
    at, of_gates = lane * H + units, lane * 4 * H + units
    products, bias = _gates_at(z + of_gates, real, H), _gates_at(b + units, real, H)
    gates, c_before, c, h = gates + of_gates, c_before + at, c + at, h + at
    x_i, x_f, x_u, x_o = _gates_at(x + H + units, real, H)
    i, f = tl.sigmoid(products[0] + x_i + bias[0]), tl.sigmoid(products[1] + x_f + bias[1])
    u, o = _tanh(products[2] + x_u + bias[2]), tl.sigmoid(products[3] + x_o + bias[3])
    new_c = f * tl.load(c_before, real) + i * u
    tl.store(c, new_c, real)
    tl.store(h, o * _tanh(new_c), real)
    _store_gates(gates, i, f, u, o, real, H)


@triton.jit
def retreat(dh, dh_next, gates, c_before, c, dc, dx, H: tl.constexpr, BLOCK: tl.constexpr):
    """From d h, of this byte and from the next one, write d z; move dc [B, H] one byte back.

    d z: dx [B, 5H] after its first H columns.
    """
    lane = tl.program_id(0).to(tl.int64)
    units = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = units < H
    at = lane * H + units
    d_h = tl.load(dh + at, real).to(tl.float32) + tl.load(dh_next + at, real).to(tl.float32)
    dz, gates = dx + lane * 5 * H + H + units, gates + lane * 4 * H + units
    c_before, c, dc = c_before + at, c + at, dc + at
    i, f, u, o = _gates_at(gates, real, H)
    tanh_c = _tanh(tl.load(c, real))
    d_c = tl.load(dc, real) + d_h * o * (1 - tanh_c * tanh_c)
    d_i, d_u = d_c * u * i * (1 - i), d_c * i * (1 - u * u)
    d_f = d_c * tl.load(c_before, real) * f * (1 - f)
    _store_gates(dz, d_i, d_f, d_u, d_h * tanh_c * o * (1 - o), real, H)
    tl.store(dc, d_c * f, real)


@triton.jit
def unmultiply(
    dm, x, indices, recurrent, dx, d_recurrent, m, H: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """From dm [B, H] write the gradients of both factors of m; m is computed again for d W.

    They are the first H columns of dx [B, 5H], and d_recurrent [B, H].
    """
    lane, units, real, x = _place(x, indices, H, BLOCK)
    at = lane * H + units
    d_m = tl.load(dm + at, real).to(tl.float32)
    x_m = tl.load(x + units, real).to(tl.float32)
    r = tl.load(recurrent + at, real).to(tl.float32)
    tl.store(dx + lane * 5 * H + units, d_m * r, real)
    tl.store(d_recurrent + at, d_m * x_m, real)
    tl.store(m + at, x_m * r, real)


def launch(kernel, like: Tensor, *arguments: Tensor | None) -> None:
    """Run a kernel over all lanes and units. like: [B, H], for its shape."""
    B, H = like.shape
    block = min(_LARGEST_BLOCK, triton.next_power_of_2(H))
    kernel[(B, triton.cdiv(H, block))](*arguments, H=H, BLOCK=block)
