"""Counts the bytes that a window keeps for its backward pass."""

import torch
from torch import Tensor

from model.fused.cuda.graphs import without_graphs

from .contenders import from_table
from .problem import Problem, Sizes


def saved_bytes(problem: Problem) -> int:
    """Return the bytes that autograd holds for ours, without parameters and folded weights."""
    storages: dict[int, int] = {}
    table = (problem.embedding.shape[0], problem.w_x.shape[0])
    given = {tensor.untyped_storage().data_ptr() for tensor in problem.parameters()}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given and tensor.shape != table:
            storages[storage.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    with without_graphs(), hooks:
        h = from_table(problem)()  # held until all is counted, so that no address is used twice
        total = sum(storages.values())
    del h
    return total


def least_bytes(shape: Sizes) -> int:
    """Return the bytes that backward needs unless it repeats a product.

    Per byte, lane and unit: four gates and W_mh h in the compute dtype, the cell state in fp32.
    The rest follows from these element by element: m from W_mh h, h from the output gate and c.
    """
    per_unit = 5 * shape.dtype.itemsize + 4
    return shape.T * shape.B * shape.H * per_unit
