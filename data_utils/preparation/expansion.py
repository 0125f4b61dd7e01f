"""The inputs that a user names: files, folders, patterns and addresses, in order."""

import glob
import logging
from collections.abc import Sequence
from pathlib import Path

from model.errors import InputError
from model.reading.inputs import KINDS, Input, as_input, is_address

from ..corpus import is_corpus, is_unfinished_corpus

NOTES = (".part.json", ".source.json")  # beside a file that was downloaded

log = logging.getLogger(__name__)


def expand(arguments: Sequence[str | Path]) -> list[Input]:
    """Return the inputs that files, folders, patterns and addresses name, in a fixed order.

    A folder stands for all files in it, at any depth, of a kind that is read; a folder's and a
    pattern's files are taken in the order of their names. Left out are files that this project made
    there: corpora, finished or not, and notes on downloads.
    """
    inputs: list[Input] = []
    for argument in map(str, arguments):
        if is_address(argument) or Path(argument).is_file():
            inputs.append(as_input(argument))
        elif Path(argument).is_dir():
            inputs += _of_folder(Path(argument))
        elif matches := sorted(path for path in glob.glob(argument, recursive=True)):
            files = [path for path in map(Path, matches) if path.is_file()]
            inputs += map(as_input, _not_ours(files, argument))
        else:
            raise InputError(f"{argument}: no such file")
    return inputs


def _of_folder(folder: Path) -> list[Input]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    inputs = []
    for path in _not_ours(files, str(folder)):
        try:
            inputs.append(as_input(path))
        except InputError:
            continue  # a README or a licence beside the data
    if not inputs:
        raise InputError(f"{folder}: no file of a known kind in it ({', '.join(KINDS)})")
    return inputs


def _not_ours(files: Sequence[Path], argument: str) -> list[Path]:
    """Return the files except those that this project made; log how many these are."""
    kept = [path for path in files if not _is_ours(path)]
    if ours := len(files) - len(kept):
        log.info("%s: %d files that this project made are left out", argument, ours)
    return kept


def _is_ours(path: Path) -> bool:
    unfinished = any(map(is_unfinished_corpus, path.parents))
    return unfinished or is_corpus(path.parent) or path.name.endswith(NOTES)
