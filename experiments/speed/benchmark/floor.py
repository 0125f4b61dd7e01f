"""The products that a window needs, and nothing else: by the fastest routine, and as the unit can.

Sequential, per byte: h W_mh and m W_h, and their gradients. Batched over the window: the input
projections, their gradients, and the weight gradients. Each product gets its best layout at no cost
and uses the fastest routine found here, with weights packed once per window if that helps.
"""

from collections.abc import Callable
from math import prod
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from model.kernels.amx.library import runs_on_tiles
from model.kernels.amx.products import blocks_of, lay_right
from model.kernels.triton.graphs import CudaCapture

from .problem import Problem, Sizes
from .tiles import RepeatedProduct, StreamedProduct, SummedProduct
from .timing import CpuTimed, fastest
from .vectors import RepeatedOnVectors

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


class _Shape(NamedTuple):
    """A product [M, K] times [K, N] that a window repeats."""

    M: int
    N: int
    K: int
    times: int


RESIDENT_ROWS, DEPTH = 256, 1024  # of a left factor that stays in L2
PIECES = (8, 16)  # tiles of a panel's depth at a time; the third way is the whole depth


class Achievable:
    """The products of a window at the speed of the unit that multiplies, and packing for AMX.

    Each product has its real shape, and its factors come from the cache that they fit into. The
    unit loads, multiplies and stores: no gates, no barrier between bytes. Sums over all bytes and
    lanes are in pieces whose left factor stays in L2. So no training of this window by this unit is
    faster, unless somebody finds a faster order of its instructions. On AVX-512 nothing is packed.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        backward: bool = True,
        inputs: bool = True,
        choose: Choose = fastest,
    ):
        """inputs: whether each byte's input is multiplied, too, not looked up in a table."""
        self.shapes = _shapes(problem.shape, backward=backward, inputs=inputs)
        self.packs, self._dtype = runs_on_tiles(problem.w_mh), problem.shape.dtype
        self.name = "Intel AMX" if self.packs else "AVX-512"
        work = {name: self._fastest(shape, choose) for name, shape in self.shapes.items()}
        if self.packs:
            work["packing"] = _packing(problem, backward=backward)
        self._work = {name: CpuTimed(one) for name, one in work.items()}

    def __call__(self) -> None:
        """Multiply and pack once."""
        for work in self._work.values():
            work()

    def gigaflops(self) -> dict[str, float]:
        """Return each product's GFLOP in a CPU second, at the median, and that of registers."""
        M, N, K, times = next(iter(self.shapes.values()))
        registers = CpuTimed(self._repeated(next(iter(self.shapes.values())), 0))
        registers()
        rates = {
            name: 2e-9 * prod(shape) / self._seconds(name) for name, shape in self.shapes.items()
        }
        return {**rates, "registers": 2e-9 * M * N * K * times / registers.seconds[0]}

    @property
    def milliseconds_of_packing(self) -> float:
        """Of CPU time, at the median."""
        return 1e3 * self._seconds("packing")

    def _repeated(self, shape: _Shape, deep: int) -> Work:
        M, N, K, times = shape
        if self.packs:
            return RepeatedProduct((M, N, K), times, deep)
        return RepeatedOnVectors((M, N, K), times, deep, self._dtype)

    def _fastest(self, shape: _Shape, choose: Choose) -> Work:
        pieces = PIECES if self.packs else RepeatedOnVectors.PIECES
        whole = blocks_of(shape.K) if self.packs else shape.K
        return choose([self._repeated(shape, deep) for deep in sorted({*pieces, whole})])

    def _seconds(self, name: str) -> float:
        return median(self._work[name].seconds)


def _shapes(s: Sizes, *, backward: bool, inputs: bool) -> dict[str, _Shape]:
    H, E, rows = s.H, s.E, s.T * s.B

    def summed(M: int, N: int) -> _Shape:
        """[M, rows] times [rows, N] in pieces."""
        resident, depth = min(M, RESIDENT_ROWS), min(rows, DEPTH)
        return _Shape(resident, N, depth, (M // resident) * (rows // depth))

    shapes = {"h W_mh": _Shape(s.B, H, H, s.T), "m W_h": _Shape(s.B, 4 * H, H, s.T)}
    if inputs:
        shapes["x W_x"] = _Shape(s.B, 5 * H, E, s.T)
    if backward:
        shapes["dz W_h"] = _Shape(s.B, H, 4 * H, s.T)
        shapes["dr W_mh"] = _Shape(s.B, H, H, s.T)
        shapes |= {"dW_h": summed(H, 4 * H), "dW_mh": summed(H, H)}
        if inputs:
            shapes |= {"d W_x": _Shape(s.B, E, 5 * H, s.T), "dW_x": summed(E, 5 * H)}
    return shapes


def _packing(problem: Problem, *, backward: bool) -> Work:
    """Return the work of arranging weights once a pass, and the factors of weight gradients."""
    s = problem.shape
    with torch.inference_mode():
        weights = [problem.w_mh.detach().clone(), problem.w_h.detach().clone()]
        factors = [s.draw(s.T * s.B, n * s.H) for n in (4, 1, 1, 1)] if backward else []

    def pack() -> None:
        for weight in weights:
            lay_right(weight.t(), summed=False)
            if backward:
                lay_right(weight, summed=False)
        for factor in factors:
            lay_right(factor, summed=True)

    return pack


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
                *library_packed(a, b.t().contiguous()),
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
            *library_packed(a, w),
        ]
        if self._takes_ours(a):
            candidates.append(StreamedProduct(a, w))
        return self.choose(candidates)

    def summed_product(self, a: Tensor, b: Tensor) -> Work:
        """Return a.T @ b, summed over all rows, either way round and from either layout."""
        out, transposed = a.new_empty(a.shape[1], b.shape[1]), a.new_empty(b.shape[1], a.shape[1])
        a_columns, b_columns = a.t().contiguous(), b.t().contiguous()
        return self.choose(
            [
                lambda: torch.mm(a.t(), b, out=out),
                lambda: torch.mm(b.t(), a, out=transposed),
                lambda: torch.mm(a_columns, b, out=out),
                *library_packed(a_columns, b_columns),
                *library_packed(b_columns, a_columns),
                *([SummedProduct(a.t(), b, a.dtype)] if self._takes_ours(a) else []),
            ]
        )

    def _takes_ours(self, a: Tensor) -> bool:
        return self.ours and runs_on_tiles(a)


def library_packed(a: Tensor, w: Tensor) -> list[Work]:
    """Return a @ w.T with w packed by oneDNN and by MKL: torch's private operators, if present.

    On a CPU alone. a and w are contiguous: from a transposed view, oneDNN can take forever.
    """
    candidates: list[Work] = []
    rows = a.shape[0]
    if a.device.type != "cpu":
        return candidates
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

    def __init__(self, work: Work, capture: CudaCapture, device: torch.device):
        self.work = work
        _, self._replay = capture(work, device)

    def __call__(self) -> None:
        """Do the work again."""
        self._replay()
