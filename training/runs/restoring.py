"""Reads the tensors of a checkpoint, and checks that they fit; only a resume needs this."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mlstm_sentiment.errors import InputError, OtherVersion, brief
from mlstm_sentiment.files.storage import step_folders
from mlstm_sentiment.files.tensors import check_shapes
from mlstm_sentiment.files.writer import RECORD
from model.inference.tensors import check_finite
from model.state import dtype_name

from .checkpoint_store import (
    DISPLAY_ONLY,
    GROUP_STEP,
    first_indices,
    flatten_optimizers,
    named_tensors,
)


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
    needed = {name: t for name, t in saved.items() if name.split(".")[-1] not in DISPLAY_ONLY}
    check_tensors(path, needed, expected, "the optimiser has")
    for name, tensor in named_tensors(optimizers):
        tensor.copy_(needed[name])
    for first, optimizer in zip(first_indices(optimizers), optimizers, strict=True):
        if "step" in optimizer.param_groups[0]:
            optimizer.param_groups[0]["step"] = int(needed[f"{first}.{GROUP_STEP}"])
