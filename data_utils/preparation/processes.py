"""Work divided among processes; the results come in the order of the work."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

AHEAD = 2  # pieces in the queue for each process, beside the one that it works on
# Spawned, not forked: in a fork of a process with threads, a lock may stay locked for ever.
CONTEXT = multiprocessing.get_context("spawn")


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal; the waiting process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def map_in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], workers: int
) -> Iterator[Result]:
    """Yield the result of each piece in order; every process has a few pieces in its queue.

    With one worker, this process does everything. Raises ChildProcessError if one was killed.
    """
    if workers == 1:
        yield from map(work, pieces)
        return
    under_way: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(workers, CONTEXT, initializer=ignore_interrupts) as pool:
        try:
            for piece in pieces:
                under_way.append(pool.submit(work, piece))
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
