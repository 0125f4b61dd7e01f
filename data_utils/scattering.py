"""Blocks encoded by several processes, each spilled as it is done."""

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .blocks import Block, Request, block_file, cut, read_block, row_ids
from .inputs import Input
from .spills import Spill, write_spill

AHEAD = 2  # blocks cut for each process beyond the one it works on


def scatter(
    inputs: Sequence[Input], folder: Path, request: Request, seed: int | None, workers: int
) -> list[Spill]:
    """Spill every block of every input; return the spills in the order of the input.

    seed: of the order of the corpus; None keeps the input's. A block that is spilled already is
    not encoded again.
    """
    spills: list[Spill] = []
    blocks = (block for n, given in enumerate(inputs) for block in cut(n, given, request))
    stored = sum(given.stored_bytes or 0 for given in inputs)
    # disable=None: a bar on a terminal, nothing in a log
    with tqdm(desc="reading", unit=" blocks", disable=None) as bar:
        for done in _spread(blocks, folder, request, seed, workers if stored > 0 else 1):
            spills += done
            bar.update(len(done))
    return spills


def _spread(
    blocks: Iterator[Block], folder: Path, request: Request, seed: int | None, workers: int
) -> Iterator[list[Spill]]:
    """Yield the spills of each block in turn, with a few blocks under way in each process."""
    if workers == 1:
        yield from (spill_block(block, folder, request, seed) for block in blocks)
        return
    # Spawned, since a fork of a process with threads may find their locks taken.
    context = multiprocessing.get_context("spawn")
    under_way: deque[Future[list[Spill]]] = deque()
    with ProcessPoolExecutor(workers, context) as pool:
        try:
            for block in blocks:
                under_way.append(pool.submit(spill_block, block, folder, request, seed))
                if len(under_way) > workers * AHEAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a process that encoded reviews was killed, perhaps for its memory; run the same "
                "command with fewer --workers: it goes on"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def spill_block(block: Block, folder: Path, request: Request, seed: int | None) -> list[Spill]:
    """Encode a block and write its spills, one unless its input cannot be cut by lines."""
    first = Spill(block_file(folder, block.source, block.index), block.source)
    whole = block.lines is None and block.span is None
    if first.finished and not whole:
        return [first]
    spills = []
    for number, reviews in enumerate(read_block(block, request)):
        index = block.index + number
        spill = Spill(block_file(folder, block.source, index), block.source)
        ids = row_ids(block, index, reviews.rows)
        write_spill(spill, reviews, ids, keys_of(ids, seed), request.digests)
        spills.append(spill)
    return spills


def keys_of(ids: np.ndarray, seed: int | None) -> np.ndarray:
    """Return what the corpus is sorted by, uint64 [n]: a bijection of the places, or they.

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
