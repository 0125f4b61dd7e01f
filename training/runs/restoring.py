"""Reads the tensors of a checkpoint, and checks that they fit; only a resume needs this."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from mlstm_sentiment.errors import InputError, OtherVersion
from mlstm_sentiment.files.storage import step_folders
from mlstm_sentiment.files.tensors import GET_AGAIN, check_shapes
from model.inference.tensors import check_finite

from .checkpoint_store import (
    DISPLAY_ONLY,
    GROUP_STEP,
    first_indices,
    flatten_optimizers,
    named_tensors,
)

_MOST_HEADER_BYTES = 1 << 20  # of our files: names and shapes
_NEVER_NEGATIVE = {"step", GROUP_STEP, "exp_avg_sq"}


@contextmanager
def _clear_read_errors(path: Path) -> Iterator[None]:
    """Turn an error of safetensors while reading a file into InputError."""
    if path.exists() and not path.is_file():  # opening a pipe would wait
        raise InputError(f"{path}: is not a file{GET_AGAIN}")
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short ({error}){GET_AGAIN}") from error


def load_tensors(
    path: Path,
    like: Mapping[str, Tensor] | None = None,
    columns: Mapping[str, slice] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """Read a safetensors file; InputError if it is missing, damaged or holds NaN.

    like: tensors of about the expected sizes. A file of more than twice their bytes is refused
    unread, since it may not fit in memory. columns: by the name of a tensor [A, B, ...], which part
    of B to read.
    """
    with _clear_read_errors(path):
        if like is not None:
            most = 2 * sum(tensor.nbytes for tensor in like.values()) + _MOST_HEADER_BYTES
            if (size := path.stat().st_size) > most:
                raise InputError(
                    f"{path}: {size:,} bytes, but at most {most:,} are expected; is it "
                    "from another run?"
                )
        # Copies: the file is mapped into memory, and it may change.
        if columns:
            with safe_open(path, framework="pt") as file:
                names = file.keys()
                tensors = {
                    name: file.get_slice(name)[:, columns[name]].clone()
                    if name in columns
                    else file.get_tensor(name).clone()
                    for name in names
                }
        else:
            tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
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
                f"{source}: tensor {name} is {_word(tensor)}, but {authority} "
                f"{_word(expected[name])}"
            )


def _word(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_not_negative(source: Path, tensors: Mapping[str, Tensor], names: Set[str]) -> None:
    """Raise InputError for the first of these tensors with a value below zero."""
    for name in sorted(names & tensors.keys()):
        if bool((tensors[name] < 0).any()):
            raise InputError(f"{source}: {name} holds a negative number; it is damaged")


class _RoundedWeights(InputError):
    """Weights in 16 bits, as a packing that is closed could leave them."""


@contextmanager
def advice_if_damaged(checkpoint: Path, if_alone: str | None = None) -> Iterator[None]:
    """Add to an InputError how to go on; if_alone: what to do without an earlier checkpoint."""
    try:
        yield
    except OtherVersion:  # not damaged
        raise
    except _RoundedWeights as error:  # nor are these, and those before are rounded, too
        advice = if_alone or f"--train.start_from {checkpoint} begins a new run with them"
        raise InputError(f"{error}; {advice}") from error
    except InputError as error:
        own = step_folders(checkpoint.parent)
        if checkpoint != own[0]:
            advice = f"remove {checkpoint} to continue from the one before"
        else:
            run = checkpoint.parent.parent
            begin = f"a new run with --train.start_from {run} begins with its model"
            advice = if_alone or f"no earlier checkpoint is left; {begin}"
        raise InputError(f"{str(error).removesuffix(GET_AGAIN)}; {advice}") from error


def restore_weights(module: nn.Module, path: Path, authority: str) -> None:
    """Load a module's tensors; InputError as for `check_tensors` if they do not fit."""
    expected = module.state_dict()
    tensors = load_tensors(path, expected)
    if tensors and all(tensor.dtype == torch.bfloat16 for tensor in tensors.values()):
        raise _RoundedWeights(
            f"{path}: its weights are rounded to bfloat16, and a run resumes only from exact ones"
        )
    check_tensors(path, tensors, expected, authority)
    module.load_state_dict(tensors)


def restore_optimizers(optimizers: Sequence[torch.optim.Optimizer], path: Path) -> None:
    """Restore the tensors that `flatten_optimizers` returned; the optimisers keep their settings.

    Raises InputError if the file's do not fit these optimisers: a kernel would read and write
    beyond a tensor that is too small.
    """
    expected = flatten_optimizers(optimizers)
    saved = load_tensors(path, expected)
    needed = {name: t for name, t in saved.items() if name.split(".")[-1] not in DISPLAY_ONLY}
    check_tensors(path, needed, expected, "the optimiser has")
    never_negative = {name for name in needed if name.split(".")[-1] in _NEVER_NEGATIVE}
    check_not_negative(path, needed, never_negative)
    for name, tensor in named_tensors(optimizers):
        tensor.copy_(needed[name])
    for first, optimizer in zip(first_indices(optimizers), optimizers, strict=True):
        if "step" in optimizer.param_groups[0]:
            optimizer.param_groups[0]["step"] = int(needed[f"{first}.{GROUP_STEP}"])
