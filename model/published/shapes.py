"""Shapes of published tensors, held against what the layout asks for."""

from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError

Shape = tuple[int, ...]


def hold_shapes(source: Path, found: Mapping[str, Shape], expected: Mapping[str, Shape]) -> None:
    """Raise InputError for the first tensor that is missing, unknown, or of another shape."""
    for name in [*expected, *sorted(set(found) - set(expected))]:
        if found.get(name) != expected.get(name):
            raise InputError(
                f"{source}: {name} is {_text(found.get(name))} where the layout, by the sizes of "
                f"its other tensors, has {_text(expected.get(name))}"
            )


def _text(shape: Shape | None) -> str:
    return "absent" if shape is None else str(list(shape))
