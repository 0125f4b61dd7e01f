"""The folder `checkpoint/` of a run: a folder per step, whole or absent, the newest ones kept.

Also what every kind of run keeps in it: its counters, and the state of its optimisers.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlstm_sentiment.bounds import Closed, NonNegativeInt, fill
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import (
    check_format_version,
    flush_folder,
    foreign_files,
    listed,
    read_json,
    remove_folder,
    step_folder,
    step_folders,
    step_of,
    whole_folder,
)
from mlstm_sentiment.files.writer import write_json

from .run_directory import CHECKPOINT_FILES, TRAINING_FILE, check_in_place

GROUP_STEP = "group_step"
# Numbers of the last step, which pytorch-optimizer's LAMB keeps only for display.
DISPLAY_ONLY = {"weight_norm", "adam_norm", "trust_ratio"}

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """The progress of a run; each kind of run adds its own counters."""

    CLOSED: ClassVar[Mapping[str, Closed]] = {}

    step: NonNegativeInt = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counters by name; Python's JSON keeps the exact value of a float."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        """Return this step's counters as `as_json` gave them; InputError, with `path`, if wrong."""
        names = [item.name for item in fields(cls)]
        if not isinstance(content, dict) or content.keys() - cls.CLOSED != set(names):
            raise InputError(f"{path}: progress is {content!r}; it should have {', '.join(names)}")
        progress = fill(cls, content, path, "progress.")
        if progress.step != step:
            raise InputError(f"{path}: says step {progress.step}, but its folder says step {step}")
        return progress


class CheckpointStore:
    """Common handling of checkpoints; a subclass writes and reads their tensors."""

    FORMAT_VERSION: ClassVar[int]  # the newest that is read

    def __init__(self, folder: Path, keep: int):
        self.folder, self.keep = folder, keep

    def complete(self) -> list[Path]:
        """Return the complete checkpoints, oldest first; a folder is renamed once it is whole."""
        return step_folders(self.folder)

    @contextmanager
    def writing(self, step: int, description: Mapping[str, Any]) -> Iterator[Path]:
        """Yield a folder for the tensors of a step; then remove the outdated checkpoints.

        description: the format's version and the run's progress, among others. Raises InputError
        if the run's folder is gone.
        """
        check_in_place(self.folder.parent)
        with whole_folder(step_folder(self.folder, step), CHECKPOINT_FILES) as partial:
            yield partial
            write_json(partial / TRAINING_FILE, description, "part of a folder")
            flush_folder(partial)
        flush_folder(self.folder)  # before an older checkpoint is removed
        self._remove_outdated()

    def _remove_outdated(self) -> None:
        for checkpoint in self.complete()[: -self.keep]:
            if checkpoint.is_symlink():
                continue
            if foreign := foreign_files(checkpoint, CHECKPOINT_FILES):
                log.warning(
                    "%s: kept, as it holds files that a run does not write: %s",
                    checkpoint,
                    listed(foreign),
                )
            else:
                remove_folder(checkpoint)

    def describe(self, checkpoint: Path) -> tuple[dict[str, Any], Path]:
        """Return a checkpoint's description and its file; InputError if it is damaged or newer."""
        path = checkpoint / TRAINING_FILE
        content = read_json(path)
        check_format_version(content, self.FORMAT_VERSION, path)
        return content, path


def optimizer_file(group: int = 0) -> str:
    """Return the name of the file with a group's optimiser; the first has no number."""
    return f"optimizer-{group}.safetensors" if group else "optimizer.safetensors"


def newest_step(checkpoints: Path) -> int:
    """Return the step of the newest checkpoint in a folder; 0 without one."""
    return max(map(step_of, step_folders(checkpoints)), default=0)


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
        name: value if value.ndim else value.clone() for name, value in named_tensors(optimizers)
    }
    for first, optimizer in zip(first_indices(optimizers), optimizers, strict=True):
        group = optimizer.param_groups[0]
        if "step" in group:
            tensors[f"{first}.{GROUP_STEP}"] = torch.tensor(group["step"])
    return tensors


def named_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[tuple[str, Tensor]]:
    for first, optimizer in zip(first_indices(optimizers), optimizers, strict=True):
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
    for _, tensor in named_tensors([optimizer]):
        tensor.zero_()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
        if "step" in group:
            group["step"] = 0
    for parameter, gradient in zip(learning, gradients, strict=True):
        parameter.grad = gradient


def first_indices(optimizers: Sequence[torch.optim.Optimizer]) -> list[int]:
    counts = [sum(len(group["params"]) for group in o.param_groups) for o in optimizers]
    return [0, *accumulate(counts[:-1])]
