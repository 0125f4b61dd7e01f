"""Checks tensors in files against the expected shapes, dtypes and values."""

from collections.abc import Mapping, Set
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError

Shape = tuple[int, ...]
LAYOUT = "the layout, by the sizes of its other tensors, has"


def check_shapes(
    source: Path, found: Mapping[str, Shape], expected: Mapping[str, Shape], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, or of another shape.

    authority: where the expected shapes come from, with a verb, for the message.
    """
    for name in [*expected, *sorted(set(found) - set(expected))]:
        if found.get(name) != expected.get(name):
            wanted = _text(expected[name]) if name in expected else "none of that name"
            raise InputError(
                f"{source}: tensor {name} is {_text(found.get(name))} where {authority} {wanted}"
            )


def check_tensors(
    source: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, of another shape or dtype.

    bfloat16 passes for float32: packed runs may be rounded to it. authority: as for `check_shapes`.
    """
    check_shapes(source, _shapes_of(found), _shapes_of(expected), authority)
    for name, tensor in found.items():
        wanted = expected[name].dtype
        rounded = wanted == torch.float32 and tensor.dtype == torch.bfloat16
        if tensor.dtype != wanted and not rounded:
            raise InputError(
                f"{source}: tensor {name} is {_word(tensor)} where {authority} "
                f"{_word(expected[name])}"
            )


def _shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _word(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_finite(source: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError for the first tensor with a value that is NaN or infinite in fp32."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            raise InputError(
                f"{source}: {name} holds NaN or infinity; it is damaged, or its training diverged"
            )


def check_not_negative(source: Path, tensors: Mapping[str, Tensor], names: Set[str]) -> None:
    """Raise InputError for the first of these tensors with a value below zero."""
    for name in sorted(names & tensors.keys()):
        if bool((tensors[name] < 0).any()):
            raise InputError(f"{source}: {name} holds a negative number; it is damaged")


def _text(shape: Shape | None) -> str:
    return "absent" if shape is None else str(list(shape))
