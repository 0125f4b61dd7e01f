"""The counters of a run: what a checkpoint keeps besides tensors."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_type_hints

from typeguard import TypeCheckError, check_type

from model.errors import InputError


@dataclass
class Progress:
    """How far a run is; each kind of run adds its own counters."""

    step: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counters by name. Python writes a float so that reading gives the same one."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        """Return the counters that `as_json` returned, from the checkpoint of this step at `path`.

        Raises InputError, naming the file, if a counter is missing, unknown, of another type or out
        of range, or if the step is another one.
        """
        hints = get_type_hints(cls)
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
        if content["step"] != step:
            raise InputError(f"{path}: says step {content['step']}, its folder step {step}")
        return cls(**content)


@dataclass
class PretrainingProgress(Progress):
    """How far a pretraining is; its step is also its place in the data."""

    characters: int = 0  # trained so far
    best_bits_per_character: float | None = None  # on valid
    row_characters: int = 0  # since the last row of metrics
    began_from: dict[str, Any] | None = None  # the origin of the first weights, if another model's

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        if isinstance(content, dict):
            content = {"began_from": None, **content}  # older checkpoints do not have it
        return super().from_json(content, step, path)


def _is_in_range(value: int | float) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, bool) and 0 <= value < 2**63  # to Python, True is a number
