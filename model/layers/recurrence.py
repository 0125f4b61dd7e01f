"""The recurrence over a window: one definition, and the implementations that compute it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cell import mlstm_step
from ..fused.cpu import compiled_mlstm, runs_compiled
from ..fused.cpu import pack as pack_for_vectors
from ..fused.cuda.mlstm import runs_in_triton, triton_mlstm
from ..fused.deferred import deferred_mlstm
from ..fused.tiles.mlstm import pack as pack_for_tiles
from ..fused.tiles.mlstm import projects_on_tiles, runs_on_tiles, tiled_mlstm
from ..fused.vectors.integers import (
    compiled_integer_mlstm,
    multiplies_integers,
    plain_integer_mlstm,
)
from ..fused.vectors.integers import pack as pack_for_integers
from ..fused.window import Window, linear_into_kept_memory
from ..state import State

Backend = Literal["auto", "reference", "fused"]
Recurrence = Callable[[Window], tuple[Tensor, State]]  # h [T, B, H] and the state after the window


def reference_mlstm(window: Window) -> tuple[Tensor, State]:
    """Apply `mlstm_step` T times under autograd: on any device, in any dtype.

    Returns h [T, B, H] in the compute dtype and the state after the last byte.
    """
    weights, state, outputs = window.weights, window.state, []
    for x_proj_t in window.looked_up().x_proj:
        state = mlstm_step(x_proj_t, state, weights.w_mh, weights.w_h, weights.b)
        outputs.append(state.h)
    return torch.stack(outputs), state


@dataclass(frozen=True)
class Implementation:
    """One way to compute what `reference_mlstm` computes."""

    name: str
    run: Recurrence
    takes: Callable[[Tensor], bool]  # whether it runs for a w_mh of this device, dtype and length
    pack: Callable[..., Tensor] | None = None  # w_mh and w_h, for later windows; w_x if it projects
    projects: Callable[[Tensor], bool] = lambda w_x: False  # it does by itself, byte by byte
    linear: Callable[[Tensor, Tensor], Tensor] = F.linear  # what projects them before a window


REFERENCE = Implementation("reference", reference_mlstm, lambda w_mh: True)
FASTEST_FIRST = (
    Implementation("Triton", triton_mlstm, runs_in_triton),
    Implementation(
        *("compiled for matrix units", tiled_mlstm, runs_on_tiles, pack_for_tiles),
        projects=projects_on_tiles,
        linear=linear_into_kept_memory,
    ),
    Implementation(
        *("compiled", compiled_mlstm, runs_compiled, pack_for_vectors),
        linear=linear_into_kept_memory,
    ),
    Implementation("plain torch", deferred_mlstm, lambda w_mh: True),
)

# The same for products of 8-bit integers.
IN_INTEGERS = (
    Implementation(
        "compiled, 8-bit products", compiled_integer_mlstm, multiplies_integers, pack_for_integers
    ),
    Implementation("plain torch, 8-bit products", plain_integer_mlstm, lambda w_mh: True),
)


def choose(backend: Backend, w_mh: Tensor, *, integers: bool = False) -> Implementation:
    """Return the implementation for a w_mh of this device, dtype and length.

    backend: "reference" for the definition itself. "fused" and "auto" are the same: the fastest
    implementation that runs here. integers: with products of 8-bit integers, whatever the backend.
    """
    if backend == "reference" and not integers:
        return REFERENCE
    candidates = IN_INTEGERS if integers else FASTEST_FIRST
    return next(candidate for candidate in candidates if candidate.takes(w_mh))


def named(backend: Backend, w_mh: Tensor, *, integers: bool = False) -> str:
    """Name what `choose` returns; say so if one unit more would run faster."""
    name, H = choose(backend, w_mh, integers=integers).name, len(w_mh)
    if integers or H % 2 == 0:
        return name
    faster = choose(backend, w_mh.new_empty(H + 1, 0)).name
    if faster == name:
        return name
    return f"{name}: 16-bit products take units in pairs, and {H:,} is odd; {H + 1:,} run {faster}"


def recur(backend: Backend, window: Window) -> tuple[Tensor, State]:
    """Compute a window; backend: as for `choose`. Returns what `reference_mlstm` returns."""
    if backend != "reference" and torch.compiler.is_dynamo_compiling():
        from .untraced import recur_untraced

        return recur_untraced(backend, window.projected())
    weights = window.weights
    implementation = choose(backend, weights.w_mh, integers=weights.integers)
    return implementation.run(projected_for(implementation, window))


def projected_for(implementation: Implementation, window: Window) -> Window:
    """Project the inputs of a window at once, unless the implementation does so byte by byte."""
    by_itself = window.w_x is not None and implementation.projects(window.w_x)
    return window if by_itself else window.projected(implementation.linear)


def fused_mlstm(window: Window) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes, by the fastest implementation that runs here."""
    return recur("fused", window)


def pack(
    backend: Backend,
    w_mh: Tensor,
    w_h: Tensor,
    w_x: Tensor | None = None,
    *,
    integers: bool = False,
) -> Tensor | None:
    """Arrange the weights once for many windows without a gradient; None if that gains nothing.

    w_mh: [H, H], w_h: [4H, H], w_x: [5H, E]. backend, integers: as for `choose`.
    """
    if torch.compiler.is_dynamo_compiling():
        from .untraced import pack_untraced

        return pack_untraced(backend, w_mh, w_h, w_x, integers=integers)
    implementation = choose(backend, w_mh, integers=integers)
    if implementation.pack is None or torch.is_grad_enabled():
        return None
    if w_x is None or not implementation.projects(w_x):
        return implementation.pack(w_mh, w_h)
    return implementation.pack(w_mh, w_h, w_x)
