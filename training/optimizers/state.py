"""The state of optimisers as named tensors, and back."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from model.files.weights import check_not_negative, check_tensors, load_tensors

GROUP_STEP = "group_step"
NEVER_NEGATIVE = {"step", GROUP_STEP, "exp_avg_sq"}
# Numbers of the last step, which pytorch-optimizer's LAMB keeps only for display.
DISPLAY_ONLY = {"weight_norm", "adam_norm", "trust_ratio"}


def flatten_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the optimisers' tensors by name: the parameter's index, a dot, the tensor's name.

    The indices of a second optimiser's parameters continue after the first's. If steps are counted
    once for all parameters, the count has the index of the first. Before the first step, all
    tensors exist as zeros.
    """
    for optimizer in optimizers:
        _create_state(optimizer)
    # A number may be a view of many; safetensors needs separate memory.
    tensors = {
        name: value if value.ndim else value.clone() for name, value in _named_tensors(optimizers)
    }
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        group = optimizer.param_groups[0]
        if "step" in group:
            tensors[f"{first}.{GROUP_STEP}"] = torch.tensor(group["step"])
    return tensors


def restore_optimizers(optimizers: Sequence[torch.optim.Optimizer], path: Path) -> None:
    """Put back the tensors of a file; InputError as for `load_tensors` and `load_optimizers`."""
    tensors = load_tensors(path, like=flatten_optimizers(optimizers))
    load_optimizers(optimizers, tensors, path)


def load_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, Tensor], source: Path
) -> None:
    """Restore tensors that `flatten_optimizers` returned; the optimisers keep their settings.

    Raises InputError, naming the file `source`, if they do not fit these optimisers: a kernel would
    read and write beyond a tensor that is too small.
    """
    kept = {name: t for name, t in tensors.items() if name.split(".")[-1] not in DISPLAY_ONLY}
    check_tensors(source, kept, flatten_optimizers(optimizers), "the optimiser has")
    counts = {name for name in kept if name.split(".")[-1] in NEVER_NEGATIVE}
    check_not_negative(source, kept, counts)
    for name, tensor in _named_tensors(optimizers):
        tensor.copy_(kept[name])
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        if "step" in optimizer.param_groups[0]:
            optimizer.param_groups[0]["step"] = int(kept[f"{first}.{GROUP_STEP}"])


def _named_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[tuple[str, Tensor]]:
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        for index, entries in optimizer.state_dict()["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor) and name not in DISPLAY_ONLY:
                    yield f"{first + index}.{name}", value


def _create_state(optimizer: torch.optim.Optimizer) -> None:
    """Make an optimiser that has not stepped yet create its state, as zeros.

    It takes a step that changes no weight, as in torch.distributed.checkpoint.
    """
    learning = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if optimizer.state or not learning:
        return
    gradients, rates = [p.grad for p in learning], [g["lr"] for g in optimizer.param_groups]
    for parameter in learning:
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for _, tensor in _named_tensors([optimizer]):
        tensor.zero_()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
        if "step" in group:
            group["step"] = 0
    for parameter, gradient in zip(learning, gradients, strict=True):
        parameter.grad = gradient


def _first_indices(optimizers: Sequence[torch.optim.Optimizer]) -> list[int]:
    counts = [sum(len(group["params"]) for group in o.param_groups) for o in optimizers]
    return [0, *accumulate(counts[:-1])]
