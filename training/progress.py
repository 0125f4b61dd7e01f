"""How far a run is: what a checkpoint keeps besides tensors."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from typeguard import TypeCheckError, check_type

from model.errors import InputError

Counters = TypeVar("Counters")


@dataclass
class Progress:
    """Counters of a run; the step is the data cursor as well."""

    step: int = 0
    characters: int = 0  # trained so far
    best_bits_per_character: float | None = None  # on valid
    row_characters: int = 0  # since the last row of metrics

    def as_json(self) -> dict[str, Any]:
        """Return the counters; Python writes floats so that they are read back exactly."""
        return asdict(self)


def read_counters(kind: type[Counters], content: object, step: int, path: Path) -> Counters:
    """Return the dataclass `kind` from what `asdict` made of it, in the checkpoint of a step.

    Raises InputError, naming the file, where a counter is missing, unknown, of another type or out
    of range, or where the step is another one.
    """
    hints = get_type_hints(kind)
    if not isinstance(content, dict) or content.keys() != hints.keys():
        raise InputError(f"{path}: progress is {content!r}; it should have {', '.join(hints)}")
    for name, value in content.items():
        try:
            check_type(value, hints[name])
            sound = not isinstance(value, int | float) or _is_in_range(value)
        except TypeCheckError:
            sound = False
        if not sound:
            raise InputError(f"{path}: progress.{name} is {value!r}; is the file damaged?")
    if content.get("step") != step:
        raise InputError(f"{path}: is of step {content['step']}, its folder of step {step}")
    return kind(**content)


def _is_in_range(value: int | float) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, bool) and 0 <= value < 2**63  # true is a number to Python
