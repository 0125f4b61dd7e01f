"""Weight gradients of a window on matrix units, from the factors that its passes lay out."""

from typing import NamedTuple

from torch import Tensor

from ..recycling import recycled_empty
from . import products
from .products import Rows, blocks_of, multiply_summed


def empty_factor(T: int, B: int, blocks: int) -> Tensor:
    """Return memory for a factor: so many blocks of units, all bytes and lanes deep."""
    return products.empty_factor(T * blocks_of(B), blocks)


class Factors(NamedTuple):
    """What the weight gradients of a window are products of, laid out for `multiply_summed`."""

    sizes: tuple[int, int, int]  # T B H
    dz: Tensor
    m: Tensor
    d_recurrent: Tensor
    h_before: Tensor

    def of_w_h(self, rows: slice = slice(None)) -> Tensor:
        """Return these rows of d W_h [4H, H]."""
        H = self.sizes[2]
        start, stop, _ = rows.indices(4 * H)
        gates = range(start // H, -(-stop // H))
        made = self._product(self.dz, self.m, gates, 4)
        return made[start - gates.start * H :][: stop - start]

    def of_w_mh(self, rows: slice = slice(None)) -> Tensor:
        """Return these rows of d W_mh [H, H]."""
        return self._product(self.d_recurrent, self.h_before, range(1), 1)[rows]

    def _product(self, a: Tensor, b: Tensor, parts: range, all_parts: int) -> Tensor:
        T, B, H = self.sizes
        K = blocks_of(H)
        out = recycled_empty(len(parts) * H, H, dtype=a.dtype)
        rows = Rows(parts.start * K, all_parts * K, len(parts), H)
        multiply_summed(a, b, out, rows, depth=T * blocks_of(B))
        return out
