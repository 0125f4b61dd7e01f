"""Muon: momentum, made orthogonal at every step, for matrices."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from model.fused.tiles.mlstm import runs_on_tiles
from model.fused.tiles.training import orthogonal

# Jordan et al. 2024 (kellerjordan.github.io/posts/muon): an odd quintic, applied five times, that
# takes singular values in (0, 1] to within 0.3 of 1.
A, B, C = 3.4445, -4.7750, 2.0315
ITERATIONS = 5
OBLONG = 1.5  # from this ratio of the sides on, the Gram form needs fewer operations
RMS_OF_ADAM = 0.2  # Liu et al. 2025 (arXiv:2502.16982), section 2.2: so one rate fits both
TINY = torch.finfo(torch.float32).tiny  # keeps zeros zeros where they are divided
BALANCE_DECAY = 0.95  # of the mean squares of rows (Li et al. 2025, arXiv:2510.05491)


class Muon(torch.optim.Muon):
    """torch's Muon with its rate matched to Adam's and fewer operations.

    torch multiplies the whole matrix in every iteration, in bfloat16. So do we if that dtype is
    given, by our own products where a CPU has matrix units. In fp32, for the gates' [4H, H], the
    iterations multiply matrices [H, H]. This takes a third of the time on a CPU whose bf16 is slow,
    and the update does not depend on the order of a gradient's sums.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        *,
        dtype: torch.dtype,
        gate_rows: int | None = None,
        balances_rows: bool = False,
        of_kept_norms: Sequence[nn.Parameter] = (),
        **settings: Any,
    ):
        """Take matrices and torch's settings.

        dtype: of the products, fp32 or bf16. gate_rows: how many rows of a matrix become orthogonal
        together; absent, all. balances_rows: whether rows are divided by the root of their mean
        square over the steps, as in NorMuon (Li et al. 2025). of_kept_norms: the matrices whose
        rows have the same length after a step as before.
        """
        super().__init__(matrices, **settings)
        self.dtype, self.gate_rows, self.balances_rows = dtype, gate_rows, balances_rows
        self.kept_norms = {id(matrix) for matrix in of_kept_norms}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._update(matrix, matrix.grad, group)

    def _update(self, matrix: Tensor, gradient: Tensor, group: dict) -> None:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        direction = gradient.lerp(momentum, group["momentum"])  # Nesterov's
        gates = direction.split(self.gate_rows or len(direction))
        rate = group["lr"] * RMS_OF_ADAM * max(gates[0].shape) ** 0.5
        update = joined([orthogonalized(gate, self.dtype) for gate in gates])
        if self.balances_rows:
            update = balanced(update, state)
        norms = matrix.norm(dim=1, keepdim=True) if id(matrix) in self.kept_norms else None
        matrix.mul_(1 - group["lr"] * group["weight_decay"])
        matrix.sub_(update, alpha=rate)
        if norms is not None:
            matrix.mul_(norms / matrix.norm(dim=1, keepdim=True).clamp(min=TINY))


def joined(gates: Sequence[Tensor]) -> Tensor:
    """Return the gates below each other; a single one is not copied."""
    return torch.cat(list(gates)) if len(gates) > 1 else gates[0]


def balanced(update: Tensor, state: dict[str, Tensor]) -> Tensor:
    """Divide each row by the root of its mean square over the steps; the whole keeps its norm.

    state: has row_squares [rows, 1], these mean squares, which start as zeros.
    """
    squares = update.square().mean(dim=1, keepdim=True)
    if "row_squares" not in state:
        state["row_squares"] = torch.zeros_like(squares)
    means = state["row_squares"].lerp_(squares, 1 - BALANCE_DECAY)
    even = update / means.sqrt().clamp(min=TINY)
    return even * (update.norm() / even.norm().clamp(min=TINY))


def orthogonalized(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return approximately U V' of the matrix U S V', with products in fp32 or bf16.

    An iteration is X <- (A + B G + C G^2) X with the Gram matrix G = X X'. In bf16 the Gram form
    would lose small singular values, which it squares, so X itself is multiplied.
    """
    norm = matrix.norm().float().clamp(min=TINY)
    if runs_on_tiles(matrix.new_empty(0, dtype=dtype)):
        return orthogonal.iterate(matrix.float(), norm, (A, B, C), ITERATIONS).to(matrix.dtype)
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.t() if tall else matrix).float() / norm
    oblong = x.shape[1] >= OBLONG * x.shape[0]
    by_gram_matrix = oblong and dtype == torch.float32
    x = _by_gram_matrix(x) if by_gram_matrix else _as_written(x.to(dtype))
    return (x.t() if tall else x).to(matrix.dtype)


def _as_written(x: Tensor) -> Tensor:
    for _ in range(ITERATIONS):
        x = _polynomial(x @ x.t()) @ x
    return x


def _by_gram_matrix(x: Tensor) -> Tensor:
    """Multiply x once, by the product of the iterations' polynomials P: G <- P G P."""
    gram = x @ x.t()
    product = polynomial = _polynomial(gram)
    for _ in range(ITERATIONS - 1):
        gram = polynomial @ gram @ polynomial
        polynomial = _polynomial(gram)
        product = polynomial @ product
    return product @ x


def _polynomial(gram: Tensor) -> Tensor:
    polynomial = torch.addmm(gram, gram, gram, beta=B, alpha=C)
    polynomial.diagonal().add_(A)
    return polynomial
