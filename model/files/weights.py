"""A model on disk: `model.safetensors`, `config.json`, and `tokenizer.model` unless it reads bytes.

Nothing is ever unpickled.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..bounds import fill
from ..errors import InputError
from ..kernels.process import follow_quota
from ..layers.config import ModelConfig, Precision, architecture_fields
from ..layers.language_model import LanguageModel
from ..text.profiles import TextProfile, text_profile
from ..text.tokenizer import BYTES, Tokenizer
from .devices import DeviceName, choose_device
from .shipped import CONFIG_FILE, SHIPPED_MODELS, WEIGHTS_FILE, find_model
from .storage import check_format_version, read_json
from .tokenizers import load_tokenizer, save_tokenizer
from .writer import write_atomically, write_failed, write_json

# 1: bytes, unquantized; 2: bytes, matrices as 8-bit integers; 3: with a vocabulary; 4: integers of
# fewer bits
FORMAT_VERSION = 4
_FLOATS = {"F64", "F32", "F16", "BF16"}  # safetensors' names for dtypes of weights
_INTEGERS = {8: "I8", 6: "U8", 5: "U8"}  # the dtypes that store integers of so many bits
GET_AGAIN = "; get it again"  # the remedy for a model that was copied or downloaded
_MOST_HEADER_BYTES = 1 << 20  # of our files: names and shapes

Shape = tuple[int, ...]
LAYOUT = "the layout, by the sizes of its other tensors, has"


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer, text profile and provenance, as `load_model` returns it.

    >>> loaded = load_model("default")
    >>> loaded.model.config.cell, loaded.tokens("so good").dtype
    ('mlstm', dtype('uint16'))
    """

    model: LanguageModel
    profile: TextProfile
    folder: Path
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Tokenizer = BYTES

    def tokens(self, text: str) -> np.ndarray:
        """Return the tokens [n] of a text, cleaned and framed by the model's profile."""
        return self.tokenizer.encode(self.profile.encode(text))

    def __repr__(self) -> str:
        config = self.model.config
        device = self.model.embedding.weight.device
        is_shipped = self.folder.parent == SHIPPED_MODELS
        name = self.folder.name if is_shipped else str(self.folder)
        layers = "1 layer" if config.layers == 1 else f"{config.layers} layers"
        return (
            f"LoadedModel({name!r}: {config.cell} of {config.hidden_size:,} units in "
            f"{layers}, text profile {self.profile.name!r}, on {device})"
        )


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
        from .quantization import quantize

        tensors = quantize(tensors, bits)
    save_tensors(folder / WEIGHTS_FILE, tensors)
    description = {
        **_format(tokenizer, quantized, bits),
        "architecture": model.config.architecture(),
        **tokenizer.describe(),
        "text_profile": profile.name,
        "provenance": dict(provenance),
    }
    write_json(folder / CONFIG_FILE, description)


def _format(tokenizer: Tokenizer, quantized: bool, bits: int) -> dict[str, Any]:
    """Return the oldest sufficient format version, and the fields that it needs."""
    if quantized and bits != 8:
        return {"format_version": 4, "quantized": True, "bits": bits}
    if tokenizer.kind == BYTES.kind:
        return {"format_version": 2 if quantized else 1}
    return {"format_version": 3, "quantized": quantized}


def load_model(
    name_or_folder: str | Path,
    *,
    backend: str = "auto",
    compute_dtype: torch.dtype | None = None,
    device: DeviceName = "auto",
) -> LoadedModel:
    """Load a trained model, with its tokenizer and text profile.

    name_or_folder: a shipped model's name, a model directory, a run directory, or hf://owner/name,
    the only one that uses the network. backend: see `ModelConfig`. compute_dtype: of the products;
    None: the parameters' own. device: "cpu", "cuda", "cuda:1", "mps", a torch.device, or "auto" or
    None: a GPU, if any. Raises InputError for files that are missing, damaged or of a newer format,
    and for a device or backend that cannot be used here. Shapes are compared with the description
    before any memory is allocated.

        loaded = load_model("default")
        features = SentimentFeaturizer(loaded).transform(["so good"])
    """
    follow_quota()
    chosen = choose_device(device)
    if compute_dtype is not None and not getattr(compute_dtype, "is_floating_point", False):
        raise InputError(f"compute_dtype is {compute_dtype!r}; give one such as torch.bfloat16")
    folder = find_model(name_or_folder)
    path = folder / CONFIG_FILE
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    config = _read_architecture(description, backend, path)
    tokenizer = load_tokenizer(folder, description, path)
    rest = fill(_ModelDescription, description, path)
    quantized = description["format_version"] == 2 if rest.quantized is None else rest.quantized
    if tokenizer.vocabulary_size != config.resolved_vocabulary_size:
        raise InputError(
            f"{path}: {config.resolved_vocabulary_size} tokens, but its tokenizer has "
            f"{tokenizer.vocabulary_size}"
        )
    with torch.device("meta"), _SkipInitialization():
        expected = LanguageModel(config, compute_dtype)
    tensors = _load_weights(folder / WEIGHTS_FILE, expected, rest.bits if quantized else None)
    weights = {name: tensor.float() for name, tensor in tensors.items()}
    expected.load_state_dict(weights, assign=True)
    model = expected.to(chosen).eval()
    model.check_backend()
    return LoadedModel(model, text_profile(rest.text_profile), folder, rest.provenance, tokenizer)


def as_loaded(model: str | Path | LoadedModel, device: DeviceName = "auto") -> LoadedModel:
    """Return a loaded model as it is; load any other, for products in fp32."""
    if isinstance(model, LoadedModel):
        return model
    return load_model(model, compute_dtype=torch.float32, device=device)


def adapted(
    loaded: LoadedModel, precision: Precision | None, device: DeviceName = "auto"
) -> LoadedModel:
    """Return a loaded model in another precision or on another device, and leave the original.

    precision: None: the model's own. device: "auto" or None: where the model is. The two share
    weights unless the device differs.
    """
    model, here = loaded.model, loaded.model.embedding.weight.device
    target = here if device in ("auto", None) else choose_device(device)
    if target.type != here.type or target.index not in (None, here.index):
        model = copy.deepcopy(model).to(target)
    elif precision is not None:
        model = copy.copy(model)
    if precision is not None:
        model.set_precision(precision)
    return replace(loaded, model=model)


class _SkipInitialization(TorchFunctionMode):
    """Disables torch.nn.init.

    For tensors on the meta device, torch would draw numbers in Python code that imports its
    compiler, which takes longer than the rest of loading a model.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__module__", "") == nn.init.__name__:
            return options["tensor"] if "tensor" in options else args[0]
        return func(*args, **options)


def model_digest(model: LanguageModel, dtype: torch.dtype | None = None) -> str:
    """Return a digest of all that determines the features: weights, architecture, precision.

    dtype: of the products; None: the model's own. A classifier belongs to a model in fp32.
    """
    described = (model.config.architecture(), str(dtype or model.dtype))
    digest = hashlib.sha256(repr(described).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def _read_architecture(description: Mapping[str, Any], backend: str, path: Path) -> ModelConfig:
    architecture = description.get("architecture")
    if not isinstance(architecture, dict):
        raise InputError(f"{path}: has no architecture section")
    keys = architecture_fields(architecture.get("cell"))
    unknown, missing = set(architecture) - keys, keys - {"vocabulary_size"} - set(architecture)
    try:
        if unknown or missing:
            raise InputError(
                f"architecture has unknown keys {sorted(unknown)}, lacks {sorted(missing)}"
            )
        return ModelConfig(**architecture, backend=backend)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


@dataclass(frozen=True)
class _ModelDescription:
    """What `config.json` says of a model besides its architecture and tokenizer."""

    OTHER_KEYS: ClassVar = True
    text_profile: str
    provenance: dict[str, Any] = field(default_factory=dict)
    quantized: bool | None = None
    bits: Literal[8, 6, 5] = 8

    def __post_init__(self) -> None:
        text_profile(self.text_profile)


def _load_weights(path: Path, model: LanguageModel, bits: int | None) -> dict[str, Tensor]:
    """Return a model's weights from a file, after comparing its header with the model.

    bits: of the integers that matrices are kept as; None: they are floating-point numbers.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if bits is None:
        check_header(path, shapes)
        return load_tensors(path)
    from .quantization import dequantize, is_quantized, quantized_shapes

    integers = {name: bits for name, shape in shapes.items() if is_quantized(shape)}
    check_header(path, quantized_shapes(shapes, bits), integers)
    tensors = dequantize(load_tensors(path), shapes, bits)
    check_finite(path, tensors)  # scales may be too large for their integers
    return tensors


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, whole or not at all.

    Raises InputError, and leaves an existing file unchanged, if a value is not finite.
    """
    check_finite(path, tensors)
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, partial(_save, contiguous))


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


def check_header(
    path: Path, expected: Mapping[str, Shape], integers: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Compare a file's header with the expected shapes; no tensor is read.

    integers: the bits of tensors that are integers, by name; all others are floating-point numbers.
    """
    with _clear_read_errors(path), safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
        dtypes = {name: part.get_dtype() for name, part in slices.items()}
    check_shapes(path, shapes, dict(sorted(expected.items())), "the description asks for")
    for name, dtype in sorted(dtypes.items()):
        bits = integers.get(name)
        if dtype not in (_FLOATS if bits is None else {_INTEGERS[bits]}):
            expected_kind = "floating-point numbers" if bits is None else f"{bits}-bit integers"
            raise InputError(f"{path}: tensor {name} holds {dtype}, not {expected_kind}")


def check_shapes(
    source: Path, actual: Mapping[str, Shape], expected: Mapping[str, Shape], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, or of another shape.

    authority: where the expected shapes come from, with a verb, for the message.
    """
    for name in [*expected, *sorted(set(actual) - set(expected))]:
        if actual.get(name) != expected.get(name):
            required = _text(expected[name]) if name in expected else "none of that name"
            raise InputError(
                f"{source}: tensor {name} is {_text(actual.get(name))}, but {authority} {required}"
            )


def check_tensors(
    source: Path, actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, of another shape or dtype.

    bfloat16 passes for float32: packed runs may be rounded to it. authority: as for `check_shapes`.
    """
    check_shapes(source, _shapes_of(actual), _shapes_of(expected), authority)
    for name, tensor in actual.items():
        dtype = expected[name].dtype
        rounded = dtype == torch.float32 and tensor.dtype == torch.bfloat16
        if tensor.dtype != dtype and not rounded:
            raise InputError(
                f"{source}: tensor {name} is {_word(tensor)}, but {authority} "
                f"{_word(expected[name])}"
            )


def _shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


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


def _text(shape: Shape | None) -> str:
    return "absent" if shape is None else str(list(shape))
