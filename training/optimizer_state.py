"""What optimisers remember, as named tensors and back."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

GROUP_STEP = "group_step"


def flatten_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the optimisers' tensors by name: parameter index, dot, what it is.

    The parameters of a second optimiser are counted on from the first's. A step that is counted
    once for all parameters, as in LAMB and apex, is with the first of them.
    """
    tensors: dict[str, Tensor] = {}
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        content = optimizer.state_dict()
        for index, entries in content["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    # A number may be a view of many; safetensors wants memory of its own.
                    tensors[f"{first + index}.{name}"] = value if value.ndim else value.clone()
        if "step" in content["param_groups"][0]:
            tensors[f"{first}.{GROUP_STEP}"] = torch.tensor(content["param_groups"][0]["step"])
    return tensors


def load_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], tensors: dict[str, Tensor]
) -> None:
    """Put tensors back that `flatten_optimizers` returned; the settings stay the optimisers'."""
    firsts = _first_indices(optimizers)
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    steps: dict[int, int] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        owner = bisect_right(firsts, int(index)) - 1
        if name == GROUP_STEP:
            steps[owner] = int(tensor)
        else:
            states[owner].setdefault(int(index) - firsts[owner], {})[name] = tensor
    for owner, (optimizer, state) in enumerate(zip(optimizers, states, strict=True)):
        groups = optimizer.state_dict()["param_groups"]
        if owner in steps:
            groups[0]["step"] = steps[owner]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _first_indices(optimizers: Sequence[torch.optim.Optimizer]) -> list[int]:
    counts = [sum(len(group["params"]) for group in o.param_groups) for o in optimizers]
    return [0, *accumulate(counts[:-1])]
