"""The layout of openai/generating-reviews-discovering-sentiment: numbered .npy files.

     0      embedding  [256, E]          9   gx   [4H]
     1      wx   [E, 4H]                10   gh   [4H]
     2-5    wh   [H, 4H], by columns    11   gmx  [H]
     6      wmx  [E, H]                 12   gmh  [H]
     7      wmh  [H, H]                 13   w    [H, 256]
     8      b    [4H]                   14   b    [256]

float32, matrices [in, out], gates i f o u (their encoder.py). wh is in four files only because of
a size limit, so any number of blocks is read, and the files after them are numbered accordingly.
"""

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.engine.architecture import VOCABULARY_SIZE
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import map_array
from mlstm_sentiment.files.tensors import Shape, check_shapes
from model.inference.tensors import LAYOUT

_NUMBER = re.compile("0|[1-9][0-9]{0,3}")
_FILES = 15  # as published
_AFTER_WH = ("wmx", "wmh", "b", "gx", "gh", "gmx", "gmh", "out_w", "out_b")
LAYER = {  # theirs: ours
    "wx": "w_x", "wh": "w_h", "wmx": "w_mx", "wmh": "w_mh", "b": "b",
    "gx": "g_x", "gh": "g_h", "gmx": "g_mx", "gmh": "g_mh",
}  # fmt: skip
_OUR_NAMES = {
    "embedding": "embedding.weight",
    **{theirs: f"layers.0.{ours}" for theirs, ours in LAYER.items()},
    "out_w": "decoder.weight",
    "out_b": "decoder.bias",
}


def layer_sizes(width: int, H: int) -> dict[str, Shape]:
    """Return the shapes of a layer's arrays, whose input has a width."""
    return {
        "wx": (width, 4 * H), "wh": (H, 4 * H), "wmx": (width, H), "wmh": (H, H), "b": (4 * H,),
        "gx": (4 * H,), "gh": (4 * H,), "gmx": (H,), "gmh": (H,),
    }  # fmt: skip


def turned(array: np.ndarray) -> Tensor:
    """Return a matrix as [out, in], or a vector, in memory of its own."""
    return torch.from_numpy(np.ascontiguousarray(array.T))


def read_openai(folder: Path) -> dict[str, Tensor]:
    """Read the files into float32 tensors with our names and layout; gates keep their order.

    Every header is checked before any data is read. Raises InputError for files that are missing,
    too many, damaged, or of a shape that does not fit the others. Nothing is unpickled.
    """
    arrays = {path.name: _open(path) for path in _numbered_files(folder)}
    names = _name_files(folder, {name: array.shape for name, array in arrays.items()})
    tensors = {}
    for name, ours in _OUR_NAMES.items():
        parts = [arrays[file] for file, part in names.items() if part == name]
        whole = np.concatenate(parts, axis=-1, dtype=np.float32, casting="same_kind")
        # The embedding is [256, E] in both layouts.
        tensors[ours] = turned(whole.T if name == "embedding" else whole)
    return tensors


def _numbered_files(folder: Path) -> list[Path]:
    """Return the files, 0.npy first; InputError if a number below the last is missing."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that holds 0.npy, 1.npy, ...")
    files = list(folder.glob("*.npy"))
    for path in files:
        if not _NUMBER.fullmatch(path.stem):
            raise InputError(f"{path}: not one of OpenAI's files, 0.npy to 14.npy; move it away")
    if not files:
        raise InputError(f"{folder}: holds no .npy files; expected OpenAI's, 0.npy to 14.npy")
    by_number = {int(path.stem): path for path in files}
    last = max(by_number)
    if missing := [f"{number}.npy" for number in range(last) if number not in by_number]:
        named = ", ".join(missing[:_FILES] + ["..."] * (len(missing) > _FILES))
        another = f", or, if {last}.npy is another's, move it away" * (last >= _FILES)
        raise InputError(
            f"{folder}: of 0.npy to {last}.npy not there: {named}; get them again{another}"
        )
    return [by_number[number] for number in range(last + 1)]


def _open(path: Path) -> np.ndarray:
    """Map an array without reading it; refuse any dtype that weights cannot have."""
    array = map_array(path, "get it again")
    if array.dtype.kind != "f":
        raise InputError(f"{path}: holds {array.dtype}; weights are floating-point numbers")
    return array


def _name_files(folder: Path, shapes: dict[str, Shape]) -> dict[str, str]:
    """Return which part of the model each file is."""
    files = list(shapes)
    blocks = files[2 : -len(_AFTER_WH)]
    if not blocks:
        raise InputError(
            f"{folder}: holds {len(files)} files of OpenAI's, which are {_FILES}; get them again"
        )
    for file in files[:2]:
        if len(shapes[file]) != 2 or 0 in shapes[file]:
            raise InputError(f"{folder}: {file} is {list(shapes[file])}, which is no matrix")
    E, H = shapes[files[0]][1], shapes[files[1]][1] // 4
    columns = sum(shapes[file][1] for file in blocks if len(shapes[file]) == 2)
    if columns != 4 * H:
        raise InputError(
            f"{folder}: wh, which is {blocks[0]} to {blocks[-1]} of {len(files)} files, has "
            f"{columns} columns, where {files[1]} asks for {4 * H}; get missing files again, or, "
            f"if {files[-1]} is another's, move it away"
        )
    sizes: dict[str, Shape] = {
        "embedding": (VOCABULARY_SIZE, E),
        **layer_sizes(E, H),
        "out_w": (H, VOCABULARY_SIZE),
        "out_b": (VOCABULARY_SIZE,),
    }
    names = dict(zip(files, ["embedding", "wx", *["wh"] * len(blocks), *_AFTER_WH], strict=True))
    actual = {f"{file} ({names[file]})": shape for file, shape in shapes.items()}
    expected = {
        f"{file} ({name})": (H, *shapes[file][1:]) if name == "wh" else sizes[name]
        for file, name in names.items()
    }
    check_shapes(folder, actual, expected, LAYOUT)
    return names
