"""The task of every contender: embedded bytes through one mLSTM layer, and all gradients."""

from dataclasses import dataclass

import torch
from torch import Tensor

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
