"""Reads a .pt file of any origin: runs nothing in it, and allocates no more than its size."""

import argparse
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from model.errors import InputError

# The names that tensors in plain containers need. torch allows more, such as a bytearray of any
# length.
KNOWN = re.compile(
    r"collections OrderedDict|argparse Namespace|torch (?!Typed|Untyped)\w+Storage"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
)
PICKLES = 5  # one after the other in torch's container before 1.6; after them come the numbers
ZIP_MAGIC = b"PK\x03\x04"  # by which torch, too, recognises its newer containers
TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
MOST_TENSORS = 1000  # the published models have a few dozen, including their optimiser's
MOST_PARTS = 1000  # of a tuple, including nested tuples: hashing it as a key visits them all
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
    """Refuse pickles that name or build more than tensors need.

    The opcodes are followed without being executed; nothing is imported.
    """
    stream.seek(0)
    tensors = 0
    for _ in range(pickles):
        sizes = _TupleSizes()
        for code, arg, _ in pickletools.genops(stream):
            tensors += code.name == "BINPERSID"  # the memory of a tensor
            if tensors > MOST_TENSORS:
                raise InputError(f"{path}: refused, it holds more than {MOST_TENSORS:,} tensors")
            if code.name == "GLOBAL" and not KNOWN.fullmatch(str(arg)):
                name = str(arg).replace(" ", ".")
                raise InputError(f"{path}: refused, it holds {name}, not tensors alone; {REMEDY}")
            if sizes.follow(code, arg) > MOST_PARTS:
                raise InputError(
                    f"{path}: refused, it holds a tuple of more than {MOST_PARTS:,} parts; {REMEDY}"
                )


class _TupleSizes:
    """The stack and the memo of a pickle, with each object's number of parts.

    That is 1 unless the object is a tuple. A tuple that contains another one twice has twice its
    parts: forty bytes can make 2^20 of them.
    """

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.marks: list[int] = []  # sizes of the stack
        self.memo: dict[int, int] = {}

    def follow(self, code: pickletools.OpcodeInfo, arg: Any) -> int:
        """Apply an opcode; return the size of the top object, or raise IndexError or KeyError."""
        if code.name == "MARK":
            self.marks.append(len(self.stack))
        elif code.name in ("BINPUT", "LONG_BINPUT"):
            self.memo[arg] = self.stack[-1]
        elif code.name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[arg])
        else:
            operands = [self.stack.pop() for _ in range(self._operands(code))]
            parts = 1 + sum(operands) if code.name in TUPLES else 1
            self.stack += [parts] * len(code.stack_after)
        return self.stack[-1] if self.stack else 0

    def _operands(self, code: pickletools.OpcodeInfo) -> int:
        """Return how many objects an opcode takes off the stack."""
        before = code.stack_before
        if pickletools.markobject not in before:
            return len(before)
        return len(self.stack) - self.marks.pop() + before.index(pickletools.markobject)
