"""Number formats of the matrix products."""

from typing import Literal

FloatPrecision = Literal["fp32", "bf16", "fp16"]
Precision = Literal[FloatPrecision, "int8"]  # int8: 8-bit integers in the recurrence, to infer only
TrainingPrecision = Literal["auto", FloatPrecision]
