"""A .pt file of any origin: nothing in it is run, and its tensors take no more than its bytes."""

import argparse
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import torch

from ..errors import InputError

# What tensors in plain containers name. torch allows more, a bytearray of any length for one.
KNOWN = re.compile(
    r"collections OrderedDict|argparse Namespace|torch (?!Typed|Untyped)\w+Storage"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
)
PICKLES = 5  # one after the other in torch's container before 1.6; after them come the numbers


def load_tensor_file(path: Path) -> Any:
    """Read what `torch.save` wrote of tensors, dictionaries, lists and a Namespace, onto the CPU.

    A tensor may still claim more elements than the file holds, by strides of zero. Raises
    InputError for files that are damaged, compressed, or hold anything else.
    """
    with open(path, "rb") as file:  # out here, so that a missing file is not called damaged
        try:
            zipped = zipfile.is_zipfile(file)
            _check_names(path, _names_in_zip(path, file) if zipped else _names(file, PICKLES))
            # Fine-tuned classifiers carry their command line; a Namespace is a bag of names.
            with torch.serialization.safe_globals([argparse.Namespace]):
                # Mapped, entries of an archive that lie over each other take their bytes once.
                return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except InputError:
            raise
        except Exception as error:  # a damaged stream of pickle opcodes can raise anything
            # In our own words: torch's advise to load the file with code and all.
            raise InputError(
                f"{path}: no PyTorch file, or damaged or cut short; get it again"
            ) from error


def _names_in_zip(path: Path, file: IO[bytes]) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise InputError(f"{path}: is compressed, as torch.save leaves no file; unpack it")
        (content,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        with archive.open(content) as stream:
            yield from _names(stream, 1)


def _names(stream: IO[bytes], pickles: int) -> Iterator[str]:
    """Yield the modules and names that pickles refer to, as "module name"; nothing is imported."""
    stream.seek(0)
    for _ in range(pickles):
        yield from (
            str(arg) for code, arg, _ in pickletools.genops(stream) if code.name == "GLOBAL"
        )


def _check_names(path: Path, names: Iterator[str]) -> None:
    for name in names:
        if not KNOWN.fullmatch(name):
            raise InputError(
                f"{path}: refused, it holds {name.replace(' ', '.')}, not tensors alone; nothing "
                "of it was run. Ask for a state dict, or for the weights as .npy files"
            )
