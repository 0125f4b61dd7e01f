"""The inputs that a user names: files, folders and patterns, in order."""

import glob
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import KINDS, NO_FILE, Input, TableOptions, as_input, check_used

from ..corpus import is_corpus, is_unfinished_corpus

_NOTES = (".part.json", ".source.json")  # next to a file that an earlier version downloaded
_TEST_WORDS = {"test", "tests"}  # in the names of files whose texts a model is tested on
_CLASS_FOLDERS = {"pos", "neg", "unsup"}  # of a labelled set with a file for each review
_SHOWN = 5  # names of files in a message

log = logging.getLogger(__name__)


def expand(arguments: Sequence[str | Path], options: TableOptions | None = None) -> list[Input]:
    """Return the inputs that files, folders and patterns name, in a fixed order.

    A folder means all files of known kinds in it, at any depth, without linked folders; the
    files of a folder or pattern come in the order of their names. Some files are left out, and
    logged: those that this project made (corpora, finished or not, and notes on downloads), those
    with one of _TEST_WORDS in their names, hidden files in a folder, text files outside of its pos/
    and neg/, and files named before, under any name, whose reviews would be in train and in valid.
    Raises InputError for a name that cannot be read, such as a broken link or a pipe, and for an
    option that does nothing for any input.
    """
    options = options or TableOptions()
    named = (each for argument in map(str, arguments) for each in _named(argument))
    sources = list(_without_repetition(named))
    check_used(options, [source.kind for source in sources])
    return [replace(source, options=options) for source in sources]


def _named(argument: str) -> Iterable[Input]:
    path = Path(argument)
    if "://" in argument or argument.lower().startswith("file:") or path.is_file():
        return [as_input(argument)]
    if path.is_dir():
        return _of_folder(path)
    if os.path.lexists(argument):
        raise _no_file(path)
    if matches := sorted(glob.glob(argument, recursive=True)):
        return _of_pattern(argument, [Path(path) for path in matches])
    raise InputError(f"{argument}: no such file")


def _of_pattern(pattern: str, matches: Sequence[Path]) -> list[Input]:
    files = [path for path in matches if not path.is_dir()]
    inputs = [_readable(as_input(path)) for path in _not_ours(files, pattern)]
    if not inputs:
        what = "files that this project made" if files else "folders"
        raise InputError(f"{pattern}: matches only {what}; name the files to read")
    parts = Path(pattern).parts
    fixed = list(takewhile(lambda part: not glob.has_magic(part), parts))
    if any(map(_says_test, parts[len(fixed) :])):
        return inputs
    return _not_for_tests(inputs, Path(*fixed), pattern)


def _of_folder(folder: Path) -> list[Input]:
    files = []
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            files.append(path)
        elif path.is_symlink():
            log.warning("%s: is a link to a folder and left out; name it to read it too", path)
    inputs, hidden, lists = list[Input](), list[str](), list[str]()
    parents = {path.parent for path in files}
    has_classes = any(path.name == "pos" and path.with_name("neg") in parents for path in parents)
    for path in _not_ours(files, str(folder)):
        try:
            source = as_input(path)
        except InputError:
            continue  # a README or a licence next to the data
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            hidden.append(str(name))
        elif has_classes and source.kind == ".txt" and path.parent.name not in _CLASS_FOLDERS:
            lists.append(str(name))
        else:
            inputs.append(_readable(source))
    _warn_of_left_out("hidden", hidden, str(folder))
    _warn_of_left_out("other text", lists, str(folder))
    if not inputs:
        raise InputError(f"{folder}: no file of a known kind in it ({', '.join(KINDS)})")
    return _not_for_tests(inputs, folder, str(folder))


def _not_for_tests(inputs: Sequence[Input], base: Path, argument: str) -> list[Input]:
    """Return the inputs without "test" in their names below a folder; log which they are.

    Raises InputError if none is left.
    """
    remaining, left_out = list[Input](), list[str]()
    for source in inputs:
        name = Path(source.location).relative_to(base)
        if any(map(_says_test, name.parts)):
            left_out.append(str(name))
        else:
            remaining.append(source)
    if not remaining:
        raise InputError(f"{argument}: has only test files; name them to read them")
    read = [str(Path(source.location).relative_to(base)) for source in remaining]
    kinds = Counter(f"{source.kind}{source.compression or ''}" for source in remaining)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    log.info("%s: reads %s: %s", argument, counts, _some_of(read))
    _warn_of_left_out("test", left_out, argument)
    return remaining


def _warn_of_left_out(kind: str, names: Sequence[str], argument: str) -> None:
    """Warn of the files, if any, that were left out of a folder or a pattern."""
    if names:
        message = "%s: leaves out %s files: %s; name them to read them too"
        log.warning(message, argument, kind, _some_of(names))


def _says_test(part: str) -> bool:
    """Return whether a part of a path has a test word: `test-00.csv`, but not `latest.csv`."""
    return not _TEST_WORDS.isdisjoint(re.split("[^a-z]+", part.lower()))


def _some_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _readable(source: Input) -> Input:
    if not Path(source.location).is_file():
        raise _no_file(Path(source.location))
    return source


def _no_file(path: Path) -> InputError:
    if path.exists():
        return InputError(f"{path}: {NO_FILE}")
    return InputError(
        f"{path}: is a broken link; restore the file it points to, or remove the link"
    )


def _without_repetition(inputs: Iterable[Input]) -> Iterator[Input]:
    seen: dict[tuple[int, int], str] = {}
    for source in inputs:
        stat = Path(source.location).stat()
        place = stat.st_dev, stat.st_ino  # the same for all names of a file
        if place in seen:
            log.warning(
                "%s: is the same input as %s; it is read once", source.location, seen[place]
            )
            continue
        seen[place] = source.location
        yield source


def _not_ours(files: Sequence[Path], argument: str) -> list[Path]:
    """Return the files except those that this project made; log how many these are."""
    remaining = [path for path in files if not _is_ours(path)]
    if ours := len(files) - len(remaining):
        log.info("%s: %d files that this project made are left out", argument, ours)
    return remaining


def _is_ours(path: Path) -> bool:
    unfinished = any(map(is_unfinished_corpus, path.parents))
    return unfinished or is_corpus(path.parent) or path.name.endswith(_NOTES)
