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
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mlstm_sentiment.bounds import Closed, NonNegativeInt, fill
from mlstm_sentiment.errors import InputError, OtherVersion, brief
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
from mlstm_sentiment.files.tensors import check_shapes
from mlstm_sentiment.files.writer import RECORD, write_json
from model.inference.tensors import check_finite
from model.state import dtype_name

from .run_directory import CHECKPOINT_FILES, TRAINING_FILE, check_in_place

_GROUP_STEP = "group_step"
# Numbers of the last step, which pytorch-optimizer's LAMB keeps only for display.
_DISPLAY_ONLY = {"weight_norm", "adam_norm", "trust_ratio"}

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
        name: value if value.ndim else value.clone() for name, value in _named_tensors(optimizers)
    }
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        group = optimizer.param_groups[0]
        if "step" in group:
            tensors[f"{first}.{_GROUP_STEP}"] = torch.tensor(group["step"])
    return tensors


def _named_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[tuple[str, Tensor]]:
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        for index, entries in optimizer.state_dict()["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor) and name not in _DISPLAY_ONLY:
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


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; InputError, with its path, if it is missing or damaged."""
    try:
        # Copies: the file is mapped into memory, and it may change.
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (SafetensorError, FileNotFoundError) as error:
        raise InputError(f"{path}: {error}") from error
    check_finite(path, tensors)
    return tensors


def check_tensors(
    source: Path, actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, of another shape or dtype.

    authority: as for `check_shapes`.
    """
    shapes, required = (
        {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for tensors in (actual, expected)
    )
    check_shapes(source, shapes, required, authority)
    for name, tensor in actual.items():
        if tensor.dtype != expected[name].dtype:
            raise InputError(
                f"{source}: tensor {name} is {dtype_name(tensor.dtype)}, but {authority} "
                f"{dtype_name(expected[name].dtype)}"
            )


@contextmanager
def named_faults(checkpoint: Path) -> Iterator[None]:
    """Turn an error of reading a checkpoint without a record of digests into an InputError.

    With a record, its files are what was written, and the error is a fault of the code.
    """
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if (checkpoint / RECORD).exists():
            raise
        raise InputError(f"{checkpoint}: damaged ({brief(error)})") from error


@contextmanager
def advice_if_damaged(checkpoint: Path, if_alone: str | None = None) -> Iterator[None]:
    """Add to an InputError how to go on; if_alone: what to do without an earlier checkpoint."""
    try:
        with named_faults(checkpoint):
            yield
    except OtherVersion:  # not damaged
        raise
    except InputError as error:
        own = step_folders(checkpoint.parent)
        if checkpoint != own[0]:
            advice = f"remove {checkpoint} to continue from the one before"
        else:
            run = checkpoint.parent.parent
            begin = f"a new run with --train.start_from {run} begins with its model"
            advice = if_alone or f"no earlier checkpoint is left; {begin}"
        raise InputError(f"{error}; {advice}") from error


def restore_weights(module: nn.Module, path: Path, authority: str) -> None:
    """Load a module's tensors; InputError as for `check_tensors` if they do not fit."""
    expected = module.state_dict()
    tensors = load_tensors(path)
    check_tensors(path, tensors, expected, authority)
    module.load_state_dict(tensors)


def restore_optimizers(optimizers: Sequence[torch.optim.Optimizer], path: Path) -> None:
    """Restore the tensors that `flatten_optimizers` returned; the optimisers keep their settings.

    Raises InputError if the file's do not fit these optimisers: a kernel would read and write
    beyond a tensor that is too small.
    """
    expected = flatten_optimizers(optimizers)
    saved = load_tensors(path)
    needed = {name: t for name, t in saved.items() if name.split(".")[-1] not in _DISPLAY_ONLY}
    check_tensors(path, needed, expected, "the optimiser has")
    for name, tensor in _named_tensors(optimizers):
        tensor.copy_(needed[name])
    for first, optimizer in zip(_first_indices(optimizers), optimizers, strict=True):
        if "step" in optimizer.param_groups[0]:
            optimizer.param_groups[0]["step"] = int(needed[f"{first}.{_GROUP_STEP}"])
