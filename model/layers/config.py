"""The section `model` of a run's settings: the architecture, and the backend that computes it.

It needs no torch, so a command can check its options before torch is imported.
"""

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from mlstm_sentiment.engine.architecture import Architecture
from mlstm_sentiment.errors import InputError, check_choice

Backend = Literal["auto", "reference", "torch", "cpp", "amx", "triton", "fused"]
ANY_CELL = ("auto", "reference", "fused")  # backends that every cell accepts

Precision = Literal["fp32", "bf16", "fp16"]
TrainingPrecision = Literal["auto", Precision]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Architecture):
    """Architecture of the language model, and the backend that computes it.

    Raises InputError for a value out of bounds or a field that the cell lacks.

    >>> ModelConfig(cell="lstm", hidden_size=128).layers
    1
    """

    backend: Backend = "auto"
    """What computes the mLSTM's recurrence. auto: the fastest that runs here; training prints which
    at its start. Or one by its name: cpp, compiled C++; amx, the same with Intel AMX in bf16;
    triton, on NVIDIA GPUs; torch, plain torch; reference, the definition under autograd, many times
    slower, for checks. fused is the old name of auto."""

    @classmethod
    def of(cls, architecture: Architecture, backend: str = "auto") -> "ModelConfig":
        """Return the config of an architecture; backend: of one that does not name its own."""
        if isinstance(architecture, cls):
            return architecture
        return cls(**{**asdict(architecture), "backend": backend})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model.backend", self.backend, get_args(Backend))
        if self.cell != "mlstm" and self.backend not in ANY_CELL:
            raise InputError(
                f"model.backend {self.backend} computes the recurrence of an mLSTM, and model.cell "
                f"is {self.cell}; leave model.backend out"
            )
