"""Blocks encoded by several processes; each is written as soon as it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from model.files.storage import read_json, write_json
from model.reading.inputs import Input, TableOptions
from model.reading.progress import ProgressBar

from .blocks import (
    BLOCK_BYTES,
    Block,
    Request,
    block_file,
    blocks_by_source,
    cut,
    read_block,
    row_ids,
)
from .processes import map_in_order
from .sorted_runs import SortedRun, write_run


def encode(
    inputs: Sequence[Input], folder: Path, request: Request, seed: int | None, workers: int
) -> list[SortedRun]:
    """Encode every block of every input; return the runs in the order of the input.

    seed: decides the order of the corpus; None keeps that of the input. A block that was written
    before is encoded again only if its input or the way of reading it has changed.
    """
    folder.mkdir(exist_ok=True)
    written = blocks_by_source(folder)
    for number, source in enumerate(inputs):
        expected = {"input": source.identity, "seed": seed, **asdict(request)}
        if source.options != TableOptions():
            expected["table"] = asdict(source.options)
        _drop_other_blocks(folder / f"source-{number:05d}.json", expected, written[number])
    runs: list[SortedRun] = []
    blocks = (block for n, source in enumerate(inputs) for block in cut(n, source, request))
    stored = sum(source.stored_bytes or 0 for source in inputs)
    with ProgressBar("reading", unit=" blocks") as progress:
        work = partial(encode_block, folder=folder, request=request, seed=seed)
        for done in map_in_order(work, blocks, workers if stored > 0 else 1):
            runs += done
            progress.advance(len(done))
    return runs


def _drop_other_blocks(notes: Path, expected: Mapping[str, Any], written: Sequence[Path]) -> None:
    """Remove a source's blocks if they were not written as `wanted`; record `wanted`."""
    # Earlier versions had one block size, and did not record it.
    recorded = {"block_bytes": BLOCK_BYTES, **read_json(notes)} if notes.is_file() else None
    # Text that passed strict reading is the same in lenient reading.
    if recorded not in (expected, {**expected, "strict": True}):
        for path in written:
            path.unlink()
    if recorded != expected:
        write_json(notes, expected, sweep=False)


def encode_block(block: Block, folder: Path, request: Request, seed: int | None) -> list[SortedRun]:
    """Encode a block and write its runs: one, or several if its input cannot be cut by lines."""
    first = SortedRun(block_file(folder, block.input_number, block.index), block.input_number)
    whole = block.lines is None and block.span is None
    if not whole and first.is_finished(request.digests):
        return [first]
    runs = []
    for number, reviews in enumerate(read_block(block, request)):
        index = block.index + number
        run = SortedRun(block_file(folder, block.input_number, index), block.input_number)
        ids = row_ids(block, index, reviews.rows)
        write_run(run, reviews, ids, keys_of(ids, seed), request.digests)
        runs.append(run)
    return runs


def keys_of(ids: np.ndarray, seed: int | None) -> np.ndarray:
    """Return the keys that order the corpus, uint64 [n]: the places, or a bijection of them.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014) of the place plus a seeded offset.
    """
    if seed is None:
        return ids
    z = ids * np.uint64(0x9E3779B97F4A7C15) + mixed(np.array([seed], np.uint64))
    return mixed(z)


def mixed(z: np.ndarray) -> np.ndarray:
    """Return the finaliser's output for uint64 [n]."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
