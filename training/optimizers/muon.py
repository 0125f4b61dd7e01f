"""Muon: momentum, made orthogonal at every step, for matrices."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from model.kernels.amx.library import runs_on_tiles
from model.kernels.amx.training import orthogonal

# Jordan et al. 2024 (kellerjordan.github.io/posts/muon): an odd quintic, applied five times, that
# takes singular values in (0, 1] to within 0.3 of 1.
A, B, C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_OBLONG = 1.5  # ratio of the sides from which the Gram form needs fewer operations
_RMS_OF_ADAM = 0.2  # Liu et al. 2025 (arXiv:2502.16982), section 2.2: so one rate fits both
_TINY = 1e-15  # least divisor: a zero matrix stays zero; fp32 cannot square much smaller entries


class Muon(torch.optim.Muon):
    """torch's Muon with its rate matched to Adam's and fewer operations.

    torch multiplies the whole matrix in every iteration, in bfloat16. With 16-bit products we do
    so, too, with our own kernels if the CPU has Intel AMX. With fp32, the iterations for the gates'
    [4H, H] multiply only matrices [H, H]. This takes a third of the time on a CPU whose bf16 is
    slow, and the update does not depend on the order of a gradient's sums.
    """

    def __init__(self, matrices: list[nn.Parameter], *, dtype: torch.dtype, **settings: Any):
        """Take matrices, the dtype of the products (fp32, bf16 or fp16), and torch's settings."""
        super().__init__(matrices, **settings)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix.grad)
                momentum = state["momentum_buffer"].lerp_(matrix.grad, 1 - group["momentum"])
                direction = matrix.grad.lerp(momentum, group["momentum"])  # Nesterov's
                rate = group["lr"] * _RMS_OF_ADAM * max(direction.shape) ** 0.5
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.sub_(orthogonalized(direction, self.dtype), alpha=rate)


def orthogonalized(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return approximately U V' of the matrix U S V', with products in fp32, bf16 or fp16.

    An iteration is X <- (A + B G + C G^2) X with the Gram matrix G = X X'. In 16 bits the Gram form
    would lose small singular values, which it squares, so X itself is multiplied.
    """
    norm = matrix.norm().float().clamp(min=_TINY)
    if runs_on_tiles(matrix.new_empty(0, dtype=dtype)):
        return orthogonal.iterate(matrix.float(), norm, (A, B, C), _ITERATIONS).to(matrix.dtype)
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.t() if tall else matrix).float() / norm
    oblong = x.shape[1] >= _OBLONG * x.shape[0]
    by_gram_matrix = oblong and dtype == torch.float32
    x = _by_gram_matrix(x) if by_gram_matrix else _as_written(x.to(dtype))
    return (x.t() if tall else x).to(matrix.dtype)


def operations(rows: int, columns: int, dtype: torch.dtype) -> float:
    """Return the multiplications and additions of `orthogonalized`, for a matrix of this shape."""
    n, m = sorted((rows, columns))
    if dtype == torch.float32 and m >= _OBLONG * n:
        return 4.0 * n * n * m + (8 * _ITERATIONS - 6) * n**3
    return _ITERATIONS * (4.0 * n * n * m + 2 * n**3)


def _as_written(x: Tensor) -> Tensor:
    for _ in range(_ITERATIONS):
        x = _polynomial(x @ x.t()) @ x
    return x


def _by_gram_matrix(x: Tensor) -> Tensor:
    """Multiply x once, by the product of the iterations' polynomials P: G <- P G P."""
    gram = x @ x.t()
    product = polynomial = _polynomial(gram)
    for _ in range(_ITERATIONS - 1):
        gram = polynomial @ gram @ polynomial
        polynomial = _polynomial(gram)
        product = polynomial @ product
    return product @ x


def _polynomial(gram: Tensor) -> Tensor:
    polynomial = torch.addmm(gram, gram, gram, beta=B, alpha=C)
    polynomial.diagonal().add_(A)
    return polynomial
