"""The layout of openai/generating-reviews-discovering-sentiment: numbered .npy files.

     0      embedding  [256, E]          9   gx   [4H]
     1      wx   [E, 4H]                10   gh   [4H]
     2-5    wh   [H, 4H], by columns    11   gmx  [H]
     6      wmx  [E, H]                 12   gmh  [H]
     7      wmh  [H, H]                 13   w    [H, 256]
     8      b    [4H]                   14   b    [256]

float32, matrices [in, out], gates i f o u (their encoder.py). wh is in four files only because of
a size limit, so any number of blocks is read, and the files after them are numbered accordingly.
Folded weights have no gains: 9 to 12 are absent, whether or not the last two are renumbered.
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
_FIRST_GAIN = 6  # at least: after embedding, wx, one block of wh, wmx, wmh and b
_AFTER_WH = ("wmx", "wmh", "b", "gx", "gh", "gmx", "gmh", "out_w", "out_b")
_GAINS = {"gx", "gh", "gmx", "gmh"}
_OUR_NAMES = {
    "embedding": "embedding.weight",
    "wx": "layers.0.w_x",
    "wh": "layers.0.w_h",
    "wmx": "layers.0.w_mx",
    "wmh": "layers.0.w_mh",
    "b": "layers.0.b",
    "gx": "layers.0.g_x",
    "gh": "layers.0.g_h",
    "gmx": "layers.0.g_mx",
    "gmh": "layers.0.g_mh",
    "out_w": "decoder.weight",
    "out_b": "decoder.bias",
}


def read_openai(folder: Path) -> dict[str, Tensor]:
    """Read the files into float32 tensors with our names and layout; gates keep their order.

    Every header is checked before any data is read. Raises InputError for files that are missing,
    too many, damaged, or of a shape that does not fit the others. Nothing is unpickled.
    """
    files = _numbered_files(folder)
    _check_none_is_left_out(folder, [int(path.stem) for path in files])
    arrays = {path.name: _open(path) for path in files}
    names = _name_files(folder, {name: array.shape for name, array in arrays.items()})
    tensors = {}
    for name, ours in _OUR_NAMES.items():
        parts = [arrays[file] for file, part in names.items() if part == name]
        if parts:
            whole = np.concatenate(parts, axis=-1, dtype=np.float32, casting="same_kind")
            turned = whole if name == "embedding" else whole.T  # that is [256, E] in both layouts
            tensors[ours] = torch.from_numpy(np.ascontiguousarray(turned))
    return tensors


def _numbered_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that holds 0.npy, 1.npy, ...")
    files = list(folder.glob("*.npy"))
    for path in files:
        if not _NUMBER.fullmatch(path.stem):
            raise InputError(f"{path}: not one of OpenAI's files, 0.npy to 14.npy; move it away")
    if not files:
        raise InputError(f"{folder}: holds no .npy files; expected OpenAI's, 0.npy to 14.npy")
    return sorted(files, key=lambda path: int(path.stem))


def _check_none_is_left_out(folder: Path, numbers: list[int]) -> None:
    """Raise InputError if a number below the last is missing, except folded weights' gains."""
    last = numbers[-1]
    missing = sorted(set(range(last)) - set(numbers))
    gains = list(range(last - 1 - len(_GAINS), last - 1))  # which come before the last two files
    if missing and (missing != gains or missing[0] < _FIRST_GAIN):
        another = f", or, if {last}.npy is another's, move it away" * (last >= _FILES)
        raise InputError(
            f"{folder}: of 0.npy to {last}.npy not there: {_listed(missing)}; get them again"
            f"{another}"
        )


def _open(path: Path) -> np.ndarray:
    """Map an array without reading it; refuse any dtype that weights cannot have."""
    array = map_array(path, "r", "get it again")
    if array.dtype.kind != "f":
        raise InputError(f"{path}: holds {array.dtype}; weights are floating-point numbers")
    return array


def _name_files(folder: Path, shapes: dict[str, Shape]) -> dict[str, str]:
    files = list(shapes)
    E, H = _sizes(folder, shapes)
    blocks = _count_blocks(folder, shapes, H)
    rest = files[2 + blocks :]
    tail = [name for name in _AFTER_WH if len(rest) != 5 or name not in _GAINS]
    if len(rest) != len(tail):
        raise InputError(
            f"{folder}: {len(rest)} files after wh, which is 2.npy to {files[1 + blocks]}, where "
            "there are 9, or 5 if folded"
        )
    sizes: dict[str, Shape] = {
        "wmx": (E, H), "wmh": (H, H), "b": (4 * H,), "gx": (4 * H,), "gh": (4 * H,), "gmx": (H,),
        "gmh": (H,), "out_w": (H, VOCABULARY_SIZE), "out_b": (VOCABULARY_SIZE,),
    }  # fmt: skip
    pairs = list(zip(rest, tail, strict=True))
    actual = {f"{file} ({name})": shapes[file] for file, name in pairs}
    expected = {f"{file} ({name})": sizes[name] for file, name in pairs}
    check_shapes(folder, actual, expected, LAYOUT)
    return dict(zip(files, ["embedding", "wx", *["wh"] * blocks, *tail], strict=True))


def _sizes(folder: Path, shapes: dict[str, Shape]) -> tuple[int, int]:
    """Return E and H, from the first two files."""
    embedding, wx = shapes["0.npy"], shapes.get("1.npy")
    if wx is None:
        raise InputError(f"{folder}: 1.npy is missing")
    if len(embedding) != 2 or embedding[0] != VOCABULARY_SIZE:
        raise InputError(f"{folder}: 0.npy is {list(embedding)}, no embedding of 256 bytes")
    if len(wx) != 2 or wx[0] != embedding[1] or wx[1] % 4 or not wx[1]:
        raise InputError(
            f"{folder}: 1.npy is {list(wx)} where wx has {embedding[1]} rows, the width of the "
            "embedding, and four columns per unit"
        )
    return embedding[1], wx[1] // 4


def _count_blocks(folder: Path, shapes: dict[str, Shape], hidden_size: int) -> int:
    """Count the files, from the third on, that together are wh [H, 4H]."""
    columns = 0
    for count, (file, shape) in enumerate(list(shapes.items())[2:]):
        if columns == 4 * hidden_size:
            return count
        if len(shape) != 2 or shape[0] != hidden_size or columns + shape[1] > 4 * hidden_size:
            raise InputError(
                f"{folder}: {file} is {list(shape)} where a block of wh has {hidden_size} rows "
                f"and, of {4 * hidden_size} columns, at most the {4 * hidden_size - columns} "
                "that are missing"
            )
        columns += shape[1]
    raise InputError(f"{folder}: there are no files after wh")


def _listed(missing: list[int]) -> str:
    names = [f"{number}.npy" for number in missing[:_FILES]]
    return ", ".join(names + ["..."] * (len(missing) > _FILES))
