"""The options that all benchmarks have."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from data_utils.provenance import describe_origin
from model.bounds import Bound, PositiveInt, check_bounds
from model.layers.config import FloatPrecision
from model.state import DTYPES
from training.parallel.distributed import TrainingDevice, device_of_rank

from .problem import Sizes


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Sizes, precision and place of a measurement."""

    hidden_size: PositiveInt = 512
    """H, units."""
    batch: PositiveInt = 128
    """B, lanes."""
    window: PositiveInt = 256
    """T, bytes per lane."""
    dtype: FloatPrecision = "fp32"
    """Dtype of the products. The result's `implementation` names our code for it: "compiled for
    Intel AMX" for bf16 on a CPU that has it."""
    rounds: PositiveInt = 5
    """Rounds that count; in each, everything runs once."""
    threads: Annotated[int, Bound(min=1, max=1024)] | None = None
    """CPU threads. Default: torch's."""
    device: TrainingDevice = "auto"
    """auto takes a CUDA GPU, if any."""
    output: Path | None = None
    """JSON file for the result."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")

    def shape(self, embedding_size: int) -> Sizes:
        """Return the problem's sizes, with torch set to the threads asked for."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        device, dtype = device_of_rank(self.device), DTYPES[self.dtype]
        return Sizes(self.window, self.batch, self.hidden_size, embedding_size, dtype, device)

    def provenance(self) -> dict[str, Any]:
        """Return what another person needs to judge or to repeat the measurement."""
        return {
            "options": {name: value for name, value in asdict(self).items() if name != "output"},
            "threads": torch.get_num_threads(),
            "origin": describe_origin(),
        }
