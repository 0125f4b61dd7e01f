"""The lower bound: the products that a window needs, and nothing else.

Sequential, per byte: h W_mh and m W_h, and their gradients. Batched over the window: the input
projections, their gradients, and the weight gradients. Each product gets its best layout at no cost
and uses the fastest routine found here, with weights packed once per window if that helps.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from model.kernels.amx.library import runs_on_tiles
from model.kernels.amx.products import StreamedProduct, SummedProduct
from model.kernels.triton.graphs import Capture, CudaCapture

from .problem import Problem
from .timing import fastest

Work = Callable[[], object]
Choose = Callable[[list[Work]], Work]


def gemm_floor(
    problem: Problem,
    *,
    backward: bool = True,
    inputs: int | None = None,
    ours: bool = False,
    choose: Choose = fastest,
) -> Work:
    """Return the work of one window.

    inputs: how many inputs are projected; None: one for every byte and lane. ours: also try our
    products on Intel AMX, if the CPU has it. choose: picks one of the routines for a product, of
    which the first is plain torch.
    """
    s, products = problem.shape, Products(ours, choose)
    rows, H, E = s.T * s.B, s.H, s.E
    inputs = rows if inputs is None else inputs
    work = [
        (products.product(s.draw(inputs, E), problem.w_x.detach().t()), 1),
        (products.packed_product(s.draw(s.B, H), problem.w_mh.detach()), s.T),
        (products.packed_product(s.draw(s.B, H), problem.w_h.detach()), s.T),
    ]
    if backward:
        dz, m = s.draw(rows, 4 * H), s.draw(rows, H)
        dx, x = s.draw(inputs, 5 * H), s.draw(inputs, E)
        work += [
            (products.packed_product(s.draw(s.B, 4 * H), problem.w_h.detach().t()), s.T),
            (products.packed_product(s.draw(s.B, H), problem.w_mh.detach().t()), s.T),
            (products.summed_product(dz, m), 1),
            (products.summed_product(m, m.clone()), 1),
            (products.product(dx, problem.w_x.detach()), 1),
            (products.summed_product(dx, x), 1),
        ]

    def run() -> None:
        for product, times in work:
            for _ in range(times):
                product()

    return Replayed(run, CudaCapture(), s.device) if s.device.type == "cuda" else run


class Products:
    """Chooses the routine for a product; all write to preallocated memory."""

    def __init__(self, ours: bool, choose: Choose):
        self.ours, self.choose = ours, choose

    def product(self, a: Tensor, b: Tensor) -> Work:
        """Return a @ b."""
        out = a.new_empty(a.shape[0], b.shape[1])
        b_rows = b.contiguous()
        return self.choose(
            [
                lambda: torch.mm(a, b, out=out),
                lambda: torch.mm(a, b_rows, out=out),
                *([SummedProduct(a, b, a.dtype)] if self._takes_ours(a) else []),
            ]
        )

    def packed_product(self, a: Tensor, w: Tensor) -> Work:
        """Return a @ w.T for a weight that stays the same over many calls."""
        w = w.contiguous()
        w_columns = w.t().contiguous()
        out = a.new_empty(a.shape[0], w.shape[0])
        candidates: list[Work] = [
            lambda: torch.mm(a, w.t(), out=out),
            lambda: torch.mm(a, w_columns, out=out),
        ]
        if a.device.type == "cpu":
            candidates += library_packed(a, w)
        if self._takes_ours(a):
            candidates.append(StreamedProduct(a, w))
        return self.choose(candidates)

    def summed_product(self, a: Tensor, b: Tensor) -> Work:
        """Return a.T @ b, summed over all rows, either way round and from either layout."""
        out, transposed = a.new_empty(a.shape[1], b.shape[1]), a.new_empty(b.shape[1], a.shape[1])
        a_columns = a.t().contiguous()
        return self.choose(
            [
                lambda: torch.mm(a.t(), b, out=out),
                lambda: torch.mm(b.t(), a, out=transposed),
                lambda: torch.mm(a_columns, b, out=out),
                *([SummedProduct(a.t(), b, a.dtype)] if self._takes_ours(a) else []),
            ]
        )

    def _takes_ours(self, a: Tensor) -> bool:
        return self.ours and runs_on_tiles(a)


def library_packed(a: Tensor, w: Tensor) -> list[Work]:
    """Return a @ w.T with w packed by oneDNN and by MKL: torch's private operators, if present."""
    candidates: list[Work] = []
    rows = a.shape[0]
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(w, rows)
            linear = torch.ops.mkldnn._linear_pointwise
            candidates.append(lambda: linear(a, packed, None, "none", [], ""))
        except (RuntimeError, NotImplementedError):
            pass  # this build or dtype has no such packing; the other candidates remain
    if a.dtype == torch.float32 and hasattr(torch.ops.mkl, "_mkl_linear"):
        packed_mkl = torch.ops.mkl._mkl_reorder_linear_weight(w, rows)
        candidates.append(lambda: torch.ops.mkl._mkl_linear(a, packed_mkl, w, None, rows))
    return candidates


class Replayed:
    """Work captured in a CUDA graph, so that launching it costs nothing.

    The graph reads and writes the tensors of the work but does not keep them alive; this does.
    """

    def __init__(self, work: Work, capture: Capture, device: torch.device):
        self.work = work
        _, self._replay = capture(work, device)

    def __call__(self) -> None:
        """Do the work again."""
        self._replay()
