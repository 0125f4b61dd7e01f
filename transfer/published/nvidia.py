"""The .pt files of NVIDIA/sentiment-discovery, v0.2 (2018) to its last version (2019).

    language model   {'encoder': {'encoder': embedding, 'rnn': layers}, 'decoder': decoder}
    classifier 2018  {'encoder': {'encoder': ..., 'rnn': ...}, 'classifier': ...}
    classifier 2019  {'lm_encoder': <language model, mostly without decoder>, 'classifier': ...}
    fine-tuned 2019  {'sd': <classifier 2019>, 'args': argparse.Namespace}

Matrices are [out, in]. Layer k has `rnns.k.w_ih` (4H, E or H), `w_hh` (4H, H), `w_mih` (H, E or H)
and `w_mhh` (H, H), each whole or as `_g` (out, 1) and `_v`, weight norm per row; and two biases
(4H,), which are only ever added. fp16 or fp32. After training with --tied the decoder's weight is
the embedding, and the file holds it once.

256 tokens are the bytes. 257 are the tokenizer of 2019: token 0 pads, token b + 1 is byte b.
"""

import argparse
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mlstm_sentiment.engine.architecture import VOCABULARY_SIZE
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tensors import Shape, check_shapes
from model.inference.tensors import LAYOUT

_MATRICES = {"w_ih": "x", "w_hh": "h", "w_mih": "mx", "w_mhh": "mh"}  # theirs: ours
_WRAPPERS = ("sd", "lm_encoder")


@dataclass(frozen=True)
class NvidiaWeights:
    """What a file holds: float32 tensors of our names, gates in the order of the file."""

    tensors: dict[str, Tensor]
    tokens: int  # 256 or 257 in the file; 256 in the tensors
    has_decoder: bool  # else the decoder is zero here: every byte costs 8 bits
    has_classifier: bool  # it is not read


def read_nvidia(path: Path) -> NvidiaWeights:
    """Read a language model, or the one inside a classifier.

    Raises InputError for files that are damaged, hold code, or claim more numbers than they hold,
    for other architectures, and for shapes that do not fit each other.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give NVIDIA's .pt file, or say openai")
    content = _load(path)
    weights, has_classifier = _flatten(path, content)
    has_decoder = "decoder.weight" in weights or "decoder.bias" in weights
    tokens, layers = _check(path, weights, has_decoder)
    tensors = {"embedding.weight": weights["encoder.weight"]}
    for layer in range(layers):
        tensors |= _convert_layer(weights, f"rnns.{layer}.", f"layers.{layer}.")
    H = tensors["layers.0.w_mh"].shape[0]
    # A missing decoder becomes zeros; a random one, as in the original loader, would look like a
    # bad model.
    tensors["decoder.weight"] = weights.get("decoder.weight", torch.zeros(tokens, H))
    tensors["decoder.bias"] = weights.get("decoder.bias", torch.zeros(tokens))
    if tokens > VOCABULARY_SIZE:
        # The pad was masked out of the loss, so it was never a target, and it never changed a
        # state. Dropping it changes no state, and spreads its probability over the bytes: these are
        # the model's predictions, given that the text continues.
        for name in ("embedding.weight", "decoder.weight", "decoder.bias"):
            tensors[name] = tensors[name][1:]
    # Copies: tensors that share memory in the file come apart, since a model trains each by itself.
    exact = {
        name: tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    return NvidiaWeights(exact, tokens, has_decoder, has_classifier)


def _load(path: Path) -> Any:
    """Read tensors and plain containers onto the CPU; nothing else in a file is run."""
    # Fine-tuned classifiers carry their command line; a Namespace only holds names.
    with open(path, "rb") as file, torch.serialization.safe_globals([argparse.Namespace]):
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can raise anything
            # Not in torch's words, which advise to run the file's code.
            raise InputError(
                f"{path}: not tensors that PyTorch reads safely: damaged, cut short, older than "
                "PyTorch 0.1.10, or with code in it, which was not run; get it again, or save its "
                "state dict with a newer PyTorch"
            ) from error


def _flatten(path: Path, content: Any) -> tuple[dict[str, Tensor], bool]:
    """Return the language model's tensors in one mapping, and whether there is a classifier."""
    node, has_classifier = content, False
    for wrapper in _WRAPPERS:
        has_classifier |= isinstance(node, Mapping) and "classifier" in node
        node = node.get(wrapper, node) if isinstance(node, Mapping) else node
    encoder = node.get("encoder") if isinstance(node, Mapping) else None
    if not isinstance(encoder, Mapping) or not {"encoder", "rnn"} <= set(encoder):
        raise InputError(
            f"{path}: no language model of NVIDIA's; expected 'encoder' with 'encoder' and 'rnn' "
            f"in it, at the top or in 'lm_encoder', found {_keys(content)}"
        )
    sections = {
        "encoder.": encoder["encoder"],
        "": encoder["rnn"],
        "decoder.": node.get("decoder", {}),
    }
    flat: dict[str, Tensor] = {}
    for prefix, section in sections.items():
        if not isinstance(section, Mapping):
            raise InputError(f"{path}: expected names and tensors, found {_keys(section)}")
        flat |= {f"{prefix}{name}": tensor for name, tensor in section.items()}
    for name, tensor in flat.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.is_sparse:
            raise InputError(f"{path}: {name} is not a dense tensor of floating-point numbers")
    claimed, available = sum(tensor.nbytes for tensor in flat.values()), path.stat().st_size
    if _is_tied(flat):
        claimed -= flat["decoder.weight"].nbytes
    if claimed > available:
        raise InputError(
            f"{path}: its tensors claim {claimed:,} bytes where the file has {available:,}; get it "
            "again"
        )
    return flat, has_classifier


def _is_tied(weights: Mapping[str, Tensor]) -> bool:
    """Return whether the decoder's weight is the embedding, in the same memory.

    No other tensors may share memory: a small file could claim any number of large ones.
    """
    embedding, decoder = weights.get("encoder.weight"), weights.get("decoder.weight")
    if embedding is None or decoder is None or embedding.shape != decoder.shape:
        return False
    return embedding.data_ptr() == decoder.data_ptr()


def _keys(content: Any) -> str:
    if isinstance(content, Mapping):
        return ", ".join(map(reprlib.repr, list(content)[:6])) or "nothing"
    return f"a {type(content).__name__}"


def _check(path: Path, weights: Mapping[str, Tensor], has_decoder: bool) -> tuple[int, int]:
    """Check every shape against the others; return the number of tokens and of layers."""
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    embedding, bias = shapes.get("encoder.weight", ()), shapes.get("rnns.0.b_ih", ())
    if len(embedding) != 2 or len(bias) != 1 or bias[0] % 4 or not bias[0]:
        raise InputError(
            f"{path}: expected encoder.weight (V, E) and rnns.0.b_ih (4H,), found "
            f"{list(embedding)} and {list(bias)}; is it an mLSTM?"
        )
    (V, E), H = embedding, bias[0] // 4
    if V not in (VOCABULARY_SIZE, VOCABULARY_SIZE + 1):
        raise InputError(
            f"{path}: {V} tokens; only bytes can be imported, 256 of them or 257 with the pad"
        )
    layers = len({name.split(".")[1] for name in weights if name.startswith("rnns.")})
    folded = "rnns.0.w_ih" in weights
    expected: dict[str, Shape] = {"encoder.weight": embedding}
    for layer in range(layers):
        expected |= _layer_shapes(f"rnns.{layer}.", H if layer else E, H, folded)
    if has_decoder:
        expected |= {"decoder.weight": (V, H), "decoder.bias": (V,)}
    check_shapes(path, shapes, expected, LAYOUT)
    return V, layers


def _layer_shapes(prefix: str, width: int, H: int, folded: bool) -> dict[str, Shape]:
    shapes = {"w_ih": (4 * H, width), "w_hh": (4 * H, H), "w_mih": (H, width), "w_mhh": (H, H)}
    expected: dict[str, Shape] = {f"{prefix}{bias}": (4 * H,) for bias in ("b_ih", "b_hh")}
    for name, shape in shapes.items():
        if folded:
            expected[f"{prefix}{name}"] = shape
        else:
            expected |= {f"{prefix}{name}_g": (shape[0], 1), f"{prefix}{name}_v": shape}
    return expected


def _convert_layer(weights: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    tensors = {f"{ours}b": weights[f"{theirs}b_ih"].float() + weights[f"{theirs}b_hh"].float()}
    for name, short in _MATRICES.items():
        if f"{theirs}{name}" in weights:
            tensors[f"{ours}w_{short}"] = weights[f"{theirs}{name}"]
        else:
            tensors[f"{ours}w_{short}"] = weights[f"{theirs}{name}_v"]
            tensors[f"{ours}g_{short}"] = weights[f"{theirs}{name}_g"].squeeze(1)
    return tensors
