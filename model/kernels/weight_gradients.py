"""The weight gradients of a window: products over all its bytes and lanes.

Backward through time needs none of them, so each is one product at the end. Under data parallelism
the gradient of each gate is a node of autograd's graph, from the last gate to the first, so that
one is sent while the next is computed.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.profiler import record_function

from .cores import has_amx

PRODUCT = "weight gradient"  # the name of such a product in a profile


class Factors(NamedTuple):
    """The two factors of each of a window's weight gradients."""

    dz: Tensor  # [T * B, 4H], gradient before the gates' non-linearities
    m: Tensor  # [T * B, H]
    d_recurrent: Tensor  # [T, B, H], gradient of W_mh h
    h: Tensor  # [T, B, H]
    h0: Tensor  # [B, H], before the window

    def grad_w_h(self, rows: slice = slice(None)) -> Tensor:
        return summed_product(self.dz[:, rows], self.m)

    def grad_w_mh(self, rows: slice = slice(None)) -> Tensor:
        T, _, H = self.h.shape
        gradient = summed_product(self.d_recurrent[0, :, rows], self.h0)
        if T > 1:
            after = self.d_recurrent[1:, :, rows].flatten(0, 1)
            gradient += summed_product(after, self.h[:-1].view(-1, H))
        return gradient


def keeps_fp32(factor: Tensor) -> bool:
    """Whether products with this factor can keep fp32: of 16-bit factors on NVIDIA's GPUs."""
    on_nvidia = factor.device.type == "cuda" and torch.version.hip is None
    return on_nvidia and factor.dtype.itemsize == 2


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b, in fp32 where it `keeps_fp32`, so that rounding comes after any addition."""
    return torch.mm(a, b, out_dtype=torch.float32) if keeps_fp32(a) else a @ b


def summed_product(a: Tensor, b: Tensor) -> Tensor:
    """Return a.T @ b, [M, N], for a [rows, M] and b [rows, N], as `product` does.

    AMX reads the left factor of a product by rows. With columns, oneDNN runs at less than half its
    speed, so the narrower factor is transposed first. On other processors it makes no difference.
    """
    if a.device.type == "cpu" and a.dtype.itemsize == 2 and has_amx():
        return product(b.t().contiguous(), a).t()
    return product(a.t(), b)


class _WeightProducts(Protocol):
    """The interface of factors in any layout."""

    def grad_w_h(self, rows: slice = ...) -> Tensor: ...

    def grad_w_mh(self, rows: slice = ...) -> Tensor: ...


Product = Callable[[slice], Tensor]


class DeferredWeightGradients:
    """Weight gradients that windows leave for `join` to compute at the end of backward.

    It belongs to one use of the weights: in backward, every window adds its products, whose factors
    stay in memory until they are computed.
    """

    def __init__(self) -> None:
        self.grad_w_mh: list[Product] = []
        self.grad_w_h: list[Product] = []


def weight_gradients(
    factors: _WeightProducts, deferred: DeferredWeightGradients | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return d W_mh [H, H] and d W_h [4H, H]; or defer them, and return None for both.

    They may be in fp32 where the weights are not: autograd rounds them when all is added up.
    """
    if deferred is not None:
        deferred.grad_w_mh.append(factors.grad_w_mh)
        deferred.grad_w_h.append(factors.grad_w_h)
        return None, None
    with record_function(PRODUCT):
        d_w_mh = factors.grad_w_mh()
    with record_function(PRODUCT):
        d_w_h = factors.grad_w_h()
    return d_w_mh, d_w_h


def join(parts: Iterable[Tensor], like: Tensor, products: list[Product]) -> Tensor:
    """Join parts [n, H] of a weight by rows, so that each part's gradient is ready by itself.

    like: a tensor of the whole weight's shape. products: this weight's list in
    `DeferredWeightGradients`. Backward computes each part's gradient in its own autograd node, the
    last part first, and before the nodes that produced the part. `parts` should therefore be a
    generator. Returns the whole weight, in the dtype of the parts.
    """
    first = 0
    whole: Tensor | None = None
    for part in parts:
        if whole is None:
            whole = part.new_empty(like.shape)
        rows = slice(first, first + len(part))
        whole = _Attach.apply(whole, part, rows, products)
        first = rows.stop
    assert whole is not None
    assert first == len(like)
    return whole


class _Attach(torch.autograd.Function):
    """Copies a part in; backward sums the deferred products and the incoming gradient."""

    @staticmethod
    def forward(
        ctx: Any, whole: Tensor, part: Tensor, rows: slice, products: list[Product]
    ) -> Tensor:
        ctx.rows, ctx.products = rows, products
        ctx.set_materialize_grads(False)
        whole[rows].copy_(part)
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_whole: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = [product(ctx.rows) for product in ctx.products]
        if d_whole is not None:
            gradients.append(d_whole[ctx.rows])
        if ctx.rows.start == 0:  # this node runs last
            ctx.products.clear()
        return d_whole, sum(gradients[1:], gradients[0]), None, None
