"""The task of every contender: embedded bytes through one mLSTM layer, and all gradients."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from data_utils.provenance import describe_origin
from mlstm_sentiment.bounds import Bound, PositiveInt, check_bounds
from model.layers.config import Precision
from model.state import DTYPES
from training.parallel.distributed import TrainingDevice, device_of_rank

TOKENS = 256  # V


@dataclass(frozen=True)
class Sizes:
    """Sizes of the problem; letters as in model/cell.py."""

    T: int
    B: int
    H: int
    E: int
    dtype: torch.dtype
    device: torch.device

    def recurrent_products(self) -> int:
        """Multiplications per byte and lane, forward: W_h, W_mh."""
        return 5 * self.H * self.H

    def input_products(self) -> int:
        """Multiplications per input projected, forward: W_x, W_mx."""
        return 5 * self.H * self.E

    def mlstm_products(self) -> int:
        """Multiplications per byte and lane, forward, with every byte's input projected."""
        return self.recurrent_products() + self.input_products()

    def lstm_products(self) -> int:
        """The same for an LSTM."""
        return 4 * self.H * (self.E + self.H)

    def draw(self, *sizes: int, scale: float = 1.0) -> Tensor:
        """Return seeded normal values in the compute dtype."""
        generator = torch.Generator(self.device).manual_seed(sum(sizes))
        values = torch.randn(*sizes, generator=generator, device=self.device)
        return values.mul_(scale).to(self.dtype)


@dataclass(frozen=True)
class Problem:
    """Inputs and parameters; contenders must not write to them."""

    shape: Sizes
    tokens: Tensor  # [T, B]
    embedding: Tensor  # [V, E]
    w_x: Tensor  # [5H, E]
    w_mh: Tensor  # [H, H]
    w_h: Tensor  # [4H, H]
    b: Tensor  # [4H], fp32
    dh: Tensor  # [T, B, H]: the gradient of h

    @classmethod
    def draw(cls, shape: Sizes) -> "Problem":
        """Draw a problem; its parameters ask for gradients."""
        T, B, H, E = shape.T, shape.B, shape.H, shape.E
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(0, TOKENS, (T, B), generator=generator).to(shape.device)
        bias = torch.zeros(4 * H, device=shape.device)
        parameters = (
            shape.draw(TOKENS, E),
            shape.draw(5 * H, E, scale=E**-0.5),
            shape.draw(H, H, scale=H**-0.5),
            shape.draw(4 * H, H, scale=H**-0.5),
            bias,
        )
        for parameter in parameters:
            parameter.requires_grad_()
        return cls(shape, tokens, *parameters, shape.draw(T, B, H))

    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors whose gradients a contender returns."""
        return self.embedding, self.w_x, self.w_mh, self.w_h, self.b


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Sizes, precision and place of a measurement."""

    hidden_size: PositiveInt = 512
    """H, units."""
    batch: PositiveInt = 128
    """B, lanes."""
    window: PositiveInt = 256
    """T, bytes per lane."""
    dtype: Precision = "fp32"
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
