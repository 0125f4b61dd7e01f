"""Work divided among processes; the results come in the order of the work."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import TypeVar

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")

_AHEAD = 2  # queued pieces for each process, besides the current one
# Spawned, not forked: in a fork of a process with threads, a lock may stay locked for ever.
CONTEXT = multiprocessing.get_context("spawn")


def follow_parent() -> None:
    """Leave Ctrl-C to the parent, though it reaches every process; end when the parent ends.

    Otherwise a worker whose parent was killed would finish its piece and then hang.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def map_in_order(
    work: Callable[[_Piece], _Result], pieces: Iterable[_Piece], workers: int
) -> Iterator[_Result]:
    """Yield the result of each piece in order; every process has a few pieces in its queue.

    With one worker, this process does everything. Raises ChildProcessError if one was killed.
    """
    if workers == 1:
        yield from map(work, pieces)
        return
    under_way: deque[Future[_Result]] = deque()
    with ProcessPoolExecutor(workers, CONTEXT, initializer=follow_parent) as pool:
        try:
            for piece in pieces:
                under_way.append(pool.submit(work, piece))
                if len(under_way) > workers * _AHEAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a process that encoded reviews was killed, perhaps because memory ran out; run "
                "the same command with fewer --workers: it continues from there"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
