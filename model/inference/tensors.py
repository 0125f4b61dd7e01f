"""Writes tensors of PyTorch as safetensors, and the folder of a model with its weights.

A folder has `model.safetensors`, `config.json`, and `tokenizer.model` unless the model reads bytes.
Nothing is ever unpickled.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files import tensors as files
from mlstm_sentiment.files.shipped import CONFIG_FILE, WEIGHTS_FILE
from mlstm_sentiment.files.tokenizers import save_tokenizer
from mlstm_sentiment.files.writer import write_atomically, write_failed, write_json
from mlstm_sentiment.text.profiles import TextProfile
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer

from ..layers.language_model import LanguageModel

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


def check_finite(source: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError for the first tensor with a value that is NaN or infinite in fp32."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            files.check_finite(source, {name: tensor.detach().float().cpu().numpy()})


def save_model(
    folder: str | Path,
    model: LanguageModel,
    profile: TextProfile,
    provenance: Mapping[str, Any],
    *,
    tokenizer: Tokenizer = BYTES,
    quantized: bool = False,
    bits: int = 8,
    decoder_bits: int | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a model directory that `load_model` reads; each file is replaced whole.

    provenance: where the model comes from, for JSON. quantized: store matrices as integers of
    `bits`, 8, 6 or 5, the decoder's of `decoder_bits`; None: the same. weights: an earlier copy of
    the model's; by default its present ones. Raises InputError, with nothing written, if a weight
    is not finite, or the tokenizer another model's.

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
    integers = files.IntegerBits(bits, decoder_bits) if quantized else None
    if integers is not None:
        arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
        packed = files.quantize(arrays, integers)
        tensors = {name: torch.from_numpy(array) for name, array in packed.items()}
    save_tensors(folder / WEIGHTS_FILE, tensors)
    description = {
        **_format(tokenizer, integers),
        "architecture": model.config.architecture(),
        **tokenizer.describe(),
        "text_profile": profile.name,
        "provenance": dict(provenance),
    }
    write_json(folder / CONFIG_FILE, description, "part of a folder")


def _format(tokenizer: Tokenizer, integers: files.IntegerBits | None) -> dict[str, Any]:
    """Return the oldest sufficient format version, and the fields that it needs."""
    quantized = integers is not None
    if integers is not None and integers.of(files.DECODER) != integers.matrices:
        bits = {"bits": integers.matrices, "decoder_bits": integers.decoder}
        return {"format_version": 5, "quantized": True, **bits}
    if integers is not None and integers.matrices != 8:
        return {"format_version": 4, "quantized": True, "bits": integers.matrices}
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
