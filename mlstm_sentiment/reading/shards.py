"""The outputs of the shards of a file: named NAME-i-of-n, and joined again."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import InputError
from ..files.storage import map_array
from ..files.writer import path_in_oserrors, write_atomically
from .source import Shard

_NAME = re.compile(r"(.+)-(\d{1,9})-of-(\d{1,9})")
_SHOWN = 10  # parts that an error names


def check_part(path: Path | None, shard: Shard) -> None:
    """Raise InputError if an output's name, or another part of it, says another number of shards.

    >>> check_part(Path("labelled-3-of-8.csv"), Shard(3, 8))
    """
    match = None if path is None else _NAME.fullmatch(path.stem)
    if path is None or match is None:
        return
    if (int(match[2]), int(match[3])) != (shard.number, shard.count):
        raise InputError(f"--output {path}: its name says another part than --shard {shard}")
    for other, (_, count) in _parts(path.with_name(match[1] + path.suffix)):
        if count != shard.count:
            raise InputError(
                f"--shard {shard}: {other} is one of {count} parts; give the same number of "
                "shards, or remove it"
            )


def join(path: Path) -> tuple[int, int]:
    """Join the outputs of all shards into the file `path`; return the numbers of parts and rows.

    The parts of labelled.csv are labelled-1-of-8.csv to labelled-8-of-8.csv next to it. The rows
    get the order of the file that the shards were of. Raises InputError unless all parts are there,
    of one number of shards, with as many rows as shards of one file have.
    """
    kinds = {".csv": _join_lines, ".jsonl": _join_lines, ".ndjson": _join_lines, ".npy": _join_rows}
    if path.suffix not in kinds:
        raise InputError(f"--output {path}: the name must end in {', '.join(kinds)}")
    parts = _all_parts(path)
    rows = 0

    def write(temporary: Path) -> None:
        nonlocal rows
        rows = kinds[path.suffix](parts, temporary)

    write_atomically(path, write, "joined parts")
    return len(parts), rows


def _parts(path: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yield the parts of a file that are there, with their numbers i and n."""
    if not path.parent.is_dir():
        return
    for part in sorted(path.parent.iterdir()):
        match = _NAME.fullmatch(part.stem)
        if match and match[1] == path.stem and part.suffix == path.suffix:
            yield part, (int(match[2]), int(match[3]))


def _all_parts(path: Path) -> list[Path]:
    present = {numbers: part for part, numbers in _parts(path)}
    counts = sorted({count for _, count in present})
    if not counts:
        example = path.with_name(f"{path.stem}-1-of-8{path.suffix}")
        raise InputError(f"{path}: no parts of it are there, such as {example}")
    if len(counts) > 1:
        raise InputError(
            f"{path}: there are parts of {counts[0]} and of {counts[1]} shards; remove those of one"
        )
    (count,) = counts
    missing = [number for number in range(1, count + 1) if (number, count) not in present]
    if missing:
        numbers = ", ".join(map(str, missing[:_SHOWN])) + ", ..." * (len(missing) > _SHOWN)
        raise InputError(f"{path}: of {count} parts these are missing: {numbers}")
    return [present[number, count] for number in range(1, count + 1)]


def _check_rows(parts: Sequence[Path], rows: Sequence[int]) -> None:
    """Raise InputError unless parts have as many rows as the shards of one file."""
    for number, (part, count) in enumerate(zip(parts, rows, strict=True), start=1):
        expected = len(range(number, sum(rows) + 1, len(parts)))
        if count != expected:
            raise InputError(
                f"{part}: has {count:,} rows; as a part of {sum(rows):,} it must have "
                f"{expected:,}. Were all parts made from one file?"
            )


def _join_rows(parts: Sequence[Path], joined: Path) -> int:
    arrays = [map_array(part, "r", "make it again") for part in parts]
    for part, array in zip(parts, arrays, strict=True):
        if (array.ndim, array.shape[1:]) != (2, arrays[0].shape[1:]):
            raise InputError(f"{part}: other features than those of {parts[0]}")
    _check_rows(parts, list(map(len, arrays)))
    shape = (sum(map(len, arrays)), arrays[0].shape[1])
    whole = np.lib.format.open_memmap(joined, "w+", arrays[0].dtype, shape)
    for first, array in enumerate(arrays):
        whole[first :: len(arrays)] = array
    whole.flush()
    return len(whole)


def _join_lines(parts: Sequence[Path], joined: Path) -> int:
    """Take one row of each part in turn, as the bytes that they are."""
    counts = [0] * len(parts)
    with ExitStack() as files, open(joined, "wb") as output:
        records = []
        for part in parts:
            files.enter_context(path_in_oserrors(part))
            records.append(_records(files.enter_context(open(part, "rb")), part.suffix == ".csv"))
        if parts[0].suffix == ".csv":
            heads = [next(each, b"") for each in records]
            for part, head in zip(parts, heads, strict=True):
                if head != heads[0]:
                    raise InputError(f"{part}: other columns than those of {parts[0]}")
            output.write(heads[0])
        present = True
        while present:
            present = False
            for number, each in enumerate(records):
                if (record := next(each, None)) is not None:
                    output.write(record)
                    counts[number] += 1
                    present = True
    _check_rows(parts, counts)
    return sum(counts)


def _records(file: IO[bytes], is_csv: bool) -> Iterator[bytes]:
    """Yield a file's rows; a row of CSV goes on until its quotes are closed."""
    lines: list[bytes] = []
    quotes = 0
    for line in file:
        lines.append(line)
        quotes += is_csv * line.count(b'"')
        if quotes % 2 == 0:
            yield b"".join(lines)
            lines.clear()
    if lines:
        yield b"".join(lines)
