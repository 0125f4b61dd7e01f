"""What optimisers remember, as named tensors and back."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor


def flatten_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the optimisers' tensors by name: parameter index, dot, what it is.

    The parameters of a second optimiser are counted on from the first's.
    """
    return {
        f"{first + index}.{name}": value
        for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True)
        for index, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


def load_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], tensors: dict[str, Tensor]
) -> None:
    """Put tensors back that `flatten_optimizers` returned; the settings stay the optimisers'."""
    firsts = _first_indices(optimizers)
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        owner = bisect_right(firsts, int(index)) - 1
        states[owner].setdefault(int(index) - firsts[owner], {})[name] = tensor
    for optimizer, state in zip(optimizers, states, strict=True):
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _first_indices(optimizers: Sequence[torch.optim.Optimizer]) -> list[int]:
    counts = [sum(len(group["params"]) for group in o.param_groups) for o in optimizers]
    return [0, *accumulate(counts[:-1])]
