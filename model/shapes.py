"""Shapes of tensors in files, held against what they should be."""

from collections.abc import Mapping
from pathlib import Path

from .errors import InputError

Shape = tuple[int, ...]
LAYOUT = "the layout, by the sizes of its other tensors, has"


def hold_shapes(
    source: Path, found: Mapping[str, Shape], expected: Mapping[str, Shape], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, or of another shape.

    authority: what says what is expected, with its verb, for the message.
    """
    for name in [*expected, *sorted(set(found) - set(expected))]:
        if found.get(name) != expected.get(name):
            raise InputError(
                f"{source}: tensor {name} is {_text(found.get(name))} where {authority} "
                f"{_text(expected.get(name))}"
            )


def _text(shape: Shape | None) -> str:
    return "absent" if shape is None else str(list(shape))
