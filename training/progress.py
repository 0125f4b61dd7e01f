"""The counters of a run: what a checkpoint keeps besides tensors."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from model.bounds import NonNegativeInt, fill
from model.errors import InputError


@dataclass
class Progress:
    """How far a run is; each kind of run adds its own counters."""

    step: NonNegativeInt = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counters by name. Python writes a float so that reading gives the same one."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        """Return the counters that `as_json` returned, from the checkpoint of this step at `path`.

        Raises InputError, naming the file, if a counter is missing, unknown, of another type or out
        of range, or if the step is another one.
        """
        names = [item.name for item in fields(cls)]
        if not isinstance(content, dict) or content.keys() != set(names):
            raise InputError(f"{path}: progress is {content!r}; it should have {', '.join(names)}")
        progress = fill(cls, content, path, "progress.")
        if progress.step != step:
            raise InputError(f"{path}: says step {progress.step}, its folder step {step}")
        return progress


@dataclass
class PretrainingProgress(Progress):
    """How far a pretraining is; its step is also its place in the data."""

    characters: NonNegativeInt = 0  # trained so far
    best_bits_per_character: float | None = None  # on valid
    row_characters: NonNegativeInt = 0  # since the last row of metrics
    began_from: dict[str, Any] | None = None  # the origin of the first weights, if another model's

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        if isinstance(content, dict):
            content = {"began_from": None, **content}  # older checkpoints do not have it
        return super().from_json(content, step, path)
