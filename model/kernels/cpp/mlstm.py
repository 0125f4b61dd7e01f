"""The compiled recurrence on vector units, with its gradient."""

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...state import DTYPES, State, dtype_name
from ..compilation import struct, window_library
from ..memory_pool import pooled_empty
from ..weight_gradients import DeferredWeightGradients, Factors, weight_gradients
from ..window import Inputs, RecurrenceInput, run_window

_PAD = 16  # kPad of window.cpp


_Window = struct(  # of window.cpp
    "T B H threads",
    "x indices w_mh w_h b h0 c0 h c recurrent gates packed narrow wide m "
    "dh dh_last dx d_recurrent dh0 dc db",
)


def runs_compiled(w_mh: Tensor) -> bool:
    """Return whether the compiled recurrence can take a w_mh of this device, dtype and length."""
    if w_mh.device.type != "cpu" or w_mh.dtype not in DTYPES.values():
        return False
    if w_mh.dtype.itemsize == 2 and (len(w_mh) % 2 or not torch.backends.mkldnn.enabled):
        return False  # 16-bit products need oneDNN, and units in pairs
    return _multiplies(w_mh.dtype)


@cache
def _multiplies(dtype: torch.dtype) -> bool:
    library = window_library()
    if library is None:
        return False
    probe = getattr(library, f"mlstm_multiplies_{dtype_name(dtype)}")
    probe.restype = ctypes.c_bool
    return bool(probe())


def compiled_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes; call it only if `runs_compiled`.

    Weights that are not packed yet are packed for this window.
    """
    return run_window(window, _CompiledMlstm.apply, forward)


def pack(w_mh: Tensor, w_h: Tensor) -> Tensor:
    """Arrange the weights as the forward pass multiplies by them: [5H * H]."""
    w_mh, w_h = w_mh.detach().contiguous(), w_h.detach().contiguous()
    H = w_mh.shape[0]
    packed = pooled_empty(5 * H * H, dtype=w_mh.dtype)
    call("pack", (0, 0, H), w_mh=w_mh, w_h=w_h, packed=packed)
    return packed


def forward(
    inputs: Inputs, *, packed: Tensor | None = None, save: bool = False
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor | None, ...]]:
    """Return h, the last h and c, and, if asked to save, what backward needs.

    packed: the weights from `pack`; if absent, they are packed.
    """
    (T, B, H), dtype = inputs.sizes, inputs.x.dtype
    h = pooled_empty(T, B, H, dtype=dtype)
    c = pooled_empty(T if save else 1, B, H, dtype=torch.float32)
    recurrent = pooled_empty(T, B, H, dtype=dtype) if save else None
    gates = pooled_empty(T, B, 4 * H, dtype=dtype) if save else None
    call(
        "forward",
        (T, B, H),
        x=inputs.x,
        indices=inputs.indices,
        b=inputs.b,
        h0=inputs.h0,
        c0=inputs.c0,
        h=h,
        c=c,
        recurrent=recurrent,
        gates=gates,
        packed=pack(inputs.w_mh, inputs.w_h) if packed is None else packed,
    )
    return h, h[-1].clone(), c[-1].clone(), (c, recurrent, gates)


class _CompiledMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, deferred: DeferredWeightGradients | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        inputs = Inputs(*tensors)
        h, last_h, last_c, saved = forward(inputs, save=True)
        ctx.set_materialize_grads(False)
        ctx.deferred = deferred
        ctx.save_for_backward(*inputs[:-1], h, *saved)  # not b
        return h, last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, dh: Tensor | None, dh_last: Tensor | None, dc_last: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x, indices, h0, c0, w_mh, w_h, h, c, recurrent, gates = ctx.saved_tensors
        T, B, H = h.shape
        dx = pooled_empty(T, B, 5 * H, dtype=x.dtype)
        d_recurrent, m = (pooled_empty(T, B, H, dtype=x.dtype) for _ in range(2))
        dh0 = torch.empty_like(h0)
        dc = torch.zeros_like(c0)
        if dc_last is not None:
            dc.copy_(dc_last)
        db = c0.new_zeros(torch.get_num_threads(), 4 * H)
        call(
            "backward",
            (T, B, H),
            x=x,
            indices=indices,
            w_mh=w_mh,
            w_h=w_h,
            h0=h0,
            c0=c0,
            h=h,
            c=c,
            recurrent=recurrent,
            gates=gates,
            packed=pooled_empty(5 * H * H, dtype=x.dtype),
            dh=None if dh is None else dh.contiguous(),
            dh_last=None if dh_last is None else dh_last.contiguous(),
            dx=dx,
            d_recurrent=d_recurrent,
            m=m,
            dh0=dh0,
            dc=dc,
            db=db,
        )
        dz = dx.view(T * B, 5 * H)[:, H:]
        factors = Factors(dz, m.view(T * B, H), d_recurrent, h, h0)
        d_w_mh, d_w_h = weight_gradients(factors, ctx.deferred)
        d_x = dx if indices is None else _sum_rows(dx, indices, len(x))
        return None, d_x, None, dh0, dc, d_w_mh, d_w_h, db.sum(0)


def _sum_rows(dx: Tensor, indices: Tensor, count: int) -> Tensor:
    """Return [count, 5H]: the gradients of all bytes that read the same row, added up in fp32."""
    columns = dx.shape[-1]
    sums = dx.new_zeros(count, columns, dtype=torch.float32)
    function = getattr(window_library(), f"mlstm_sum_rows_{dtype_name(dx.dtype)}")
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (dx, indices, sums))
    sizes = (ctypes.c_int64(n) for n in (indices.numel(), columns, torch.get_num_threads()))
    function(*pointers, *sizes)
    return sums.to(dx.dtype)


def call(name: str, sizes: tuple[int, int, int], **tensors: Tensor | None) -> None:
    """Call a pass of window.cpp on the tensors, named as the fields of its struct Window."""
    _, B, H = sizes
    packed = tensors["packed"]
    assert packed is not None
    name = f"mlstm_{name}_{dtype_name(packed.dtype)}"
    narrow, wide = (pooled_empty(B, n * H + _PAD, dtype=packed.dtype) for n in (1, 4))
    window = _Window(*sizes, torch.get_num_threads(), narrow=narrow, wide=wide, **tensors)
    getattr(window_library(), name)(ctypes.byref(window))
