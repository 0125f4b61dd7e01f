"""The recurrence and the decoder with products of 8-bit integers, for inference.

Each row of the weights becomes integers from -127 to 127 times its own scale. Shipped models of
8 bits have this form on disk, and lose nothing more. Every lane's h, and then its m, is rounded in
the same way before it is multiplied. Sums of integers are exact, whatever their order: a lane
depends neither on the other lanes nor on the threads. Everything between the products is in fp32.

The features of a model of one layer are therefore the same in every batch. A deeper layer projects
its inputs in fp32, window by window, and the last digits of that product depend on the batch.
Rounding may enlarge such a digit to 1/127 of a lane's largest h; after that, single features differ
by up to about 0.05.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from ...cell import mlstm_step
from ...state import State
from ..compilation import window_library
from ..memory_pool import pooled_empty
from ..window import Inputs, RecurrenceInput, run_window
from .mlstm import INTEGERS, call, forward

_LARGEST = 127
_SMALLEST = 1e-30  # kSmallest of integers.h: the largest number of a row counts as at least this
_ZERO = 128  # the offset that integers.h adds to the left factor
_INTERLEAVED = 4  # units that one instruction multiplies
_EXACT = 1 << 24  # fp32 represents every integer up to this
_NO_GRADIENT = "products of 8-bit integers have no gradient; they are for inference"


class Rounded(NamedTuple):
    """Rows of integers, each with a scale."""

    integers: Tensor  # [..., n], whole numbers, of any dtype
    scales: Tensor  # [..., 1], fp32


def round_rows(rows: Tensor) -> Rounded:
    """Round each row [..., n] to integers times a scale; its largest number becomes 127.

    A row with a number that is not finite gets a scale that is not finite either.
    """
    most = rows.abs().amax(-1, keepdim=True).clamp(min=_SMALLEST)
    return Rounded((rows * (_LARGEST / most)).round(), most / _LARGEST)


def runs_compiled_int8(w_mh: Tensor) -> bool:
    """Return whether the compiled recurrence takes a w_mh of this device, dtype and length."""
    on_cpu = w_mh.device.type == "cpu" and w_mh.dtype == torch.float32
    whole = len(w_mh) % _INTERLEAVED == 0
    return on_cpu and whole and bool(torch.backends.mkldnn.enabled) and _has_instructions()


@cache
def _has_instructions() -> bool:
    """Return whether the processor multiplies 8-bit integers, and torch offers it."""
    probe = getattr(window_library(), "mlstm_multiplies_int8", None)
    if probe is None:
        return False
    probe.restype = ctypes.c_bool
    return bool(probe())


def compiled_integer_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute what `plain_integer_mlstm` computes, where `runs_compiled_int8` says that it can."""
    return run_window(window, _WithoutGradient.apply, _forward)


def _forward(inputs: Inputs, *, packed: Tensor | None) -> tuple[Any, ...]:
    return forward(inputs, packed=pack(inputs.w_mh, inputs.w_h) if packed is None else packed)


class _WithoutGradient(Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Tensor:
        raise RuntimeError(_NO_GRADIENT)


def pack(w_mh: Tensor, w_h: Tensor) -> Tensor:
    """Arrange the weights as the compiled recurrence multiplies by them.

    Returns int8 [5H * H] of panels, then the bytes of the rows' scales, fp32 [5H], and of their
    offsets, int32 [5H]; integers.h explains them.
    """
    H = len(w_mh)
    rows = round_rows(torch.cat([w_mh, w_h]).detach())  # [5H, H]
    integers = rows.integers.to(INTEGERS)
    packed = pooled_empty(5 * H * (H + 8), dtype=INTEGERS)
    call("pack", (0, 0, H), w_mh=integers[:H], w_h=integers[H:], packed=packed)
    scales, offsets = packed[5 * H * H :].view(torch.int32).chunk(2)
    scales.view(torch.float32).copy_(rows.scales.squeeze(1))
    offsets.copy_(integers.sum(1, dtype=torch.int32) * _ZERO)
    return packed


def plain_integer_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Apply `mlstm_step` T times with products of integers, in plain torch: on any device."""
    window, weights = window.looked_up(), window.weights
    tensors = (window.x_proj, window.state.h, window.state.c, weights.w_mh, weights.w_h, weights.b)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError(_NO_GRADIENT)
    w_mh, w_h = (_as_factor(round_rows(w)) for w in (weights.w_mh, weights.w_h))
    state, outputs = window.state, []
    for x_proj_t in window.x_proj:
        state = mlstm_step(x_proj_t, state, w_mh, w_h, weights.b, linear=integer_linear)
        outputs.append(state.h)
    return torch.stack(outputs), state


def integer_factor(weights: Tensor) -> Rounded:
    """Round weights [N, K] for `integer_linear`: to int8 where the processor multiplies these."""
    rows = round_rows(weights.detach())
    if weights.device.type == "cpu" and torch.backends.mkldnn.enabled and _has_instructions():
        return Rounded(rows.integers.to(INTEGERS), rows.scales)
    return _as_factor(rows)


def _as_factor(rows: Rounded) -> Rounded:
    """Keep the integers in a dtype in which all sums of their products are exact."""
    largest_sum = rows.integers.shape[-1] * _LARGEST**2
    dtype = torch.float32 if largest_sum < _EXACT else torch.float64
    return Rounded(rows.integers.to(dtype), rows.scales)


def integer_linear(x: Tensor, w: Rounded) -> Tensor:
    """Return [..., N] from x [..., K], rounded row by row, and w [N, K], in the dtype of x."""
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError(_NO_GRADIENT)
    rows = round_rows(x)
    factor = rows.integers.to(w.integers.dtype)
    if factor.dtype == INTEGERS:  # torch._int_mm is the only product of int8 that torch has
        sums = torch._int_mm(factor.reshape(-1, x.shape[-1]), w.integers.t())
        sums = sums.view(*x.shape[:-1], len(w.integers))
    else:
        sums = F.linear(factor, w.integers)
    return sums.to(x.dtype) * w.scales.squeeze(-1) * rows.scales
