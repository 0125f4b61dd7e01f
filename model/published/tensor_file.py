"""Reads a .pt file of any origin: runs nothing in it, and allocates no more than its size."""

import argparse
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from ..errors import InputError

# The names that tensors in plain containers need. torch allows more, such as a bytearray of any
# length.
KNOWN = re.compile(
    r"collections OrderedDict|argparse Namespace|torch (?!Typed|Untyped)\w+Storage"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
)
PICKLES = 5  # one after the other in torch's container before 1.6; after them come the numbers
ZIP_MAGIC = b"PK\x03\x04"  # by which torch, too, tells its containers apart
REMEDY = "nothing of it was run. Ask for a state dict, or for the weights as .npy files"


def load_tensor_file(path: Path) -> Any:
    """Read what `torch.save` wrote of tensors, dictionaries, lists and a Namespace, onto the CPU.

    A tensor may still claim more elements than the file holds, by strides of zero. Raises
    InputError for files that are damaged, compressed, or hold anything else.
    """
    with open(path, "rb") as file:  # outside, so that a missing file is not called damaged
        try:
            zipped = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
            if zipped:
                _check_zip(path, file)
            else:
                _check_pickles(path, file, PICKLES)
            # Fine-tuned classifiers carry their command line; a Namespace only holds names.
            with torch.serialization.safe_globals([argparse.Namespace]):
                # When mapped, overlapping entries of an archive take their bytes only once.
                return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except InputError:
            raise
        except Exception as error:  # a damaged stream of opcodes can raise anything
            # In our own words: torch's message advises to load the file together with its code.
            raise InputError(
                f"{path}: not a PyTorch file, or damaged or cut short; get it again"
            ) from error


def _check_zip(path: Path, file: IO[bytes]) -> None:
    with zipfile.ZipFile(file) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise InputError(f"{path}: is compressed, which torch.save never does; unpack it")
        (content,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        with archive.open(content) as stream:
            _check_pickles(path, stream, 1)


def _check_pickles(path: Path, stream: IO[bytes], pickles: int) -> None:
    """Refuse pickles that name more than tensors need; nothing is imported or executed."""
    stream.seek(0)
    for _ in range(pickles):
        for code, arg, _ in pickletools.genops(stream):
            if code.name == "GLOBAL" and not KNOWN.fullmatch(str(arg)):
                name = str(arg).replace(" ", ".")
                raise InputError(f"{path}: refused, it holds {name}, not tensors alone; {REMEDY}")
