"""How far a run is: what a checkpoint keeps besides tensors."""

from dataclasses import asdict, dataclass
from typing import Any


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
