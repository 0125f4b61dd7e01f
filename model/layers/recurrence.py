"""The recurrence over a window: the registry of its implementations, chosen by name or by speed."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mlstm_sentiment.errors import InputError

from ..kernels.amx.library import runs_on_tiles
from ..kernels.amx.mlstm import pack as pack_for_tiles
from ..kernels.amx.mlstm import projects_on_tiles, tiled_mlstm
from ..kernels.compilation import window_library
from ..kernels.cores import has_amx
from ..kernels.cpp.mlstm import compiled_mlstm, runs_compiled
from ..kernels.cpp.mlstm import pack as pack_for_vectors
from ..kernels.reference.mlstm import reference_mlstm
from ..kernels.torch.mlstm import torch_mlstm
from ..kernels.window import RecurrenceInput, linear_into_pooled_buffer
from ..state import State, dtype_name
from .config import Backend

# Returns h [T, B, H] and the state after the window.
Recurrence = Callable[[RecurrenceInput], tuple[Tensor, State]]


@dataclass(frozen=True)
class Implementation:
    """One way to compute what `reference_mlstm` computes."""

    name: str  # the value of `model.backend` that asks for it, and its folder in kernels/
    title: str  # as printed
    run: Recurrence
    takes: Callable[[Tensor], bool]  # whether it runs for a w_mh of this device, dtype and length
    pack: Callable[..., Tensor] | None = None  # packs w_mh and w_h, and w_x if it projects
    # whether it multiplies inputs by w_x itself, token by token
    projects: Callable[[Tensor], bool] = lambda w_x: False
    linear: Callable[[Tensor, Tensor], Tensor] = F.linear  # the product x_proj = x w_x.T otherwise


# Triton is imported on a GPU alone.


def _runs_in_triton(w_mh: Tensor) -> bool:
    if not w_mh.is_cuda:
        return False
    from ..kernels.triton.mlstm import runs_in_triton

    return runs_in_triton(w_mh)


def _triton_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    from ..kernels.triton.mlstm import triton_mlstm

    return triton_mlstm(window)


REFERENCE = Implementation("reference", "reference", reference_mlstm, lambda w_mh: True)
FASTEST_FIRST = (
    Implementation("triton", "Triton", _triton_mlstm, _runs_in_triton),
    Implementation(
        name="amx",
        title="compiled for Intel AMX",
        run=tiled_mlstm,
        takes=runs_on_tiles,
        pack=pack_for_tiles,
        projects=projects_on_tiles,
        linear=linear_into_pooled_buffer,
    ),
    Implementation(
        name="cpp",
        title="compiled",
        run=compiled_mlstm,
        takes=runs_compiled,
        pack=pack_for_vectors,
        linear=linear_into_pooled_buffer,
    ),
    Implementation("torch", "plain torch", torch_mlstm, lambda w_mh: True),
)


def fastest_for(w_mh: Tensor) -> Implementation:
    """Return the fastest implementation that takes a w_mh of this device, dtype and length."""
    return next(candidate for candidate in FASTEST_FIRST if candidate.takes(w_mh))


def implementation_for(backend: Backend, w_mh: Tensor) -> Implementation:
    """Return the implementation that a `model.backend` stands for.

    auto and fused: the fastest one. w_mh: as for `fastest_for`. Raises InputError if the
    implementation of that name cannot run here.
    """
    if backend in ("auto", "fused"):
        return fastest_for(w_mh)
    for candidate in (REFERENCE, *FASTEST_FIRST):
        if candidate.name == backend and candidate.takes(w_mh):
            return candidate
    raise InputError(
        f"model.backend {backend} cannot run here: {_obstacle(backend, w_mh)}; "
        "auto takes the fastest that can"
    )


def _obstacle(backend: Backend, w_mh: Tensor) -> str:
    """Return why no implementation of that name takes a w_mh of this device, dtype and length."""
    dtype, H = dtype_name(w_mh.dtype), len(w_mh)
    if backend == "triton":
        if w_mh.device.type != "cuda":
            return f"it needs a CUDA GPU, and the model is on {w_mh.device}"
        return f"Triton is not installed, does not know {w_mh.device}, or has no {dtype} products"
    if w_mh.device.type != "cpu":
        return f"it needs a CPU, and the model is on {w_mh.device}"
    if backend == "amx":
        if w_mh.dtype != torch.bfloat16:
            return f"it multiplies in bfloat16, and the model in {dtype}"
        if not has_amx():
            return "this processor has no Intel AMX"
    elif w_mh.dtype.itemsize == 2 and H % 2:
        return f"16-bit products take units in pairs, and {H:,} is odd"
    if window_library() is None:
        return "its C++ was not compiled; it needs g++ 11 or clang 14, named by CXX or on PATH"
    return f"the processor, the compiler or torch has no fast {dtype} products"


def implementation_title(backend: Backend, w_mh: Tensor) -> str:
    """Return the chosen implementation's title, with a hint if one unit more would be faster."""
    title, H = implementation_for(backend, w_mh).title, len(w_mh)
    if H % 2 == 0 or backend not in ("auto", "fused"):
        return title
    faster = fastest_for(w_mh.new_empty(H + 1, 0)).title
    if faster == title:
        return title
    return f"{title}: 16-bit products take units in pairs, and {H:,} is odd; {H + 1:,} run {faster}"


def recur(backend: Backend, window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute a window by `implementation_for`'s choice: h [T, B, H] and the state after it."""
    implementation = implementation_for(backend, window.weights.w_mh)
    return implementation.run(projected_for(implementation, window))


def projected_for(implementation: Implementation, window: RecurrenceInput) -> RecurrenceInput:
    """Project the inputs of a window, unless the implementation does it token by token."""
    by_itself = window.w_x is not None and implementation.projects(window.w_x)
    return window if by_itself else window.projected(implementation.linear)


def pack(backend: Backend, w_mh: Tensor, w_h: Tensor, w_x: Tensor | None = None) -> Tensor | None:
    """Arrange the weights once for many windows without a gradient; None if it saves no time.

    w_mh: [H, H], w_h: [4H, H], w_x: [5H, E]. backend: as for `implementation_for`.
    """
    implementation = implementation_for(backend, w_mh)
    if implementation.pack is None or torch.is_grad_enabled():
        return None
    if w_x is None or not implementation.projects(w_x):
        return implementation.pack(w_mh, w_h)
    return implementation.pack(w_mh, w_h, w_x)
