"""Tensors of PyTorch on disk, as safetensors, and the folder of a model with its weights.

A folder has `model.safetensors`, `config.json`, and `tokenizer.model` unless the model reads bytes.
Nothing is ever unpickled.
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE, WEIGHTS_FILE
from mlstm_sentiment.files.tensors import GET_AGAIN, check_shapes
from mlstm_sentiment.files.tokenizers import save_tokenizer
from mlstm_sentiment.files.writer import write_atomically, write_failed, write_json
from mlstm_sentiment.text.profiles import TextProfile
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer

from ..layers.language_model import LanguageModel

if TYPE_CHECKING:  # training only writes
    from mlstm_sentiment.engine.stored import ModelFolder

_MOST_HEADER_BYTES = 1 << 20  # of our files: names and shapes
LAYOUT = "the layout, by the sizes of its other tensors, has"


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, whole or not at all.

    Raises InputError, and leaves an existing file unchanged, if a value is not finite.
    """
    check_finite(path, tensors)
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, partial(_save, contiguous), "part of a folder")


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # raised for a full disk, too
        raise write_failed(error) from error


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


def stored_tensors(folder: "ModelFolder", like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights in a model's folder; InputError unless they are like these."""
    shapes = {name: tuple(tensor.shape) for name, tensor in like.items()}
    stored = folder.weights(shapes)
    return {name: torch.tensor(stored.floats(name)) for name in shapes}


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


def check_finite(source: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError for the first tensor with a value that is NaN or infinite in fp32."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            raise InputError(
                f"{source}: {name} holds NaN or infinity; it is damaged, or its training diverged"
            )


def check_not_negative(source: Path, tensors: Mapping[str, Tensor], names: Set[str]) -> None:
    """Raise InputError for the first of these tensors with a value below zero."""
    for name in sorted(names & tensors.keys()):
        if bool((tensors[name] < 0).any()):
            raise InputError(f"{source}: {name} holds a negative number; it is damaged")


def save_model(
    folder: str | Path,
    model: LanguageModel,
    profile: TextProfile,
    provenance: Mapping[str, Any],
    *,
    tokenizer: Tokenizer = BYTES,
    quantized: bool = False,
    bits: int = 8,
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a model directory that `load_model` reads; each file is replaced whole.

    provenance: where the model comes from, for JSON. quantized: store matrices as integers of
    `bits`, 8, 6 or 5. weights: an earlier copy of the model's; by default its present ones. Raises
    InputError, with nothing written, if a weight is not finite, or the tokenizer another model's.

    >>> loaded = load_model("amazon_1024")
    >>> save_model("copy", loaded.model, loaded.profile, {"source": "amazon_1024"})
    >>> load_model("copy").model.config.hidden_size
    1024
    """
    folder, size = Path(folder), model.config.resolved_vocabulary_size
    if tokenizer.vocabulary_size != size:
        raise InputError(
            f"{folder}: the model has {size:,} tokens, but the tokenizer "
            f"{tokenizer.vocabulary_size:,}; give the model's own, such as loaded.tokenizer"
        )
    tensors = model.state_dict() if weights is None else weights
    check_finite(folder, tensors)
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(folder, tokenizer)
    if quantized:
        from mlstm_sentiment.files.quantization import quantize

        integers = quantize({name: tensor.cpu().numpy() for name, tensor in tensors.items()}, bits)
        tensors = {name: torch.from_numpy(array) for name, array in integers.items()}
    save_tensors(folder / WEIGHTS_FILE, tensors)
    description = {
        **_format(tokenizer, quantized, bits),
        "architecture": model.config.architecture(),
        **tokenizer.describe(),
        "text_profile": profile.name,
        "provenance": dict(provenance),
    }
    write_json(folder / CONFIG_FILE, description, "part of a folder")


def _format(tokenizer: Tokenizer, quantized: bool, bits: int) -> dict[str, Any]:
    """Return the oldest sufficient format version, and the fields that it needs."""
    if quantized and bits != 8:
        return {"format_version": 4, "quantized": True, "bits": bits}
    if tokenizer.kind == BYTES.kind:
        return {"format_version": 2 if quantized else 1}
    return {"format_version": 3, "quantized": quantized}


def model_digest(model: LanguageModel, dtype: torch.dtype | None = None) -> str:
    """Return a digest of all that determines the features: weights, architecture, precision.

    dtype: of the products; None: the model's own. A classifier belongs to a model in fp32.
    """
    from mlstm_sentiment.engine.stored import new_digest

    digest = new_digest(model.config, str(dtype or model.dtype))
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return str(digest.hexdigest())
