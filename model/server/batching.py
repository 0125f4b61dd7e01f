"""Classifies the texts of concurrent requests together, in the one thread that owns the model."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

Row = dict[str, Any]

MOST_TEXTS = 128  # of a batch: what the classifier processes at the same time
MOST_CHARACTERS = 1 << 18  # of a batch, so that the requests in it share a wait of seconds
POLL_SECONDS = 1.0


class ServerClosed(Exception):
    """The server ends before it has answered."""


class Job(NamedTuple):
    """The texts of a request, and where their rows go."""

    texts: Sequence[str]
    rows: "Future[list[Row]]"

    @property
    def characters(self) -> int:
        """The length of all texts together."""
        return sum(map(len, self.texts))


class Batcher:
    """A queue of requests; `run` answers all that are waiting with one call of `classify`.

    classify: returns one row per text; called only by the thread that calls `run`.
    """

    def __init__(self, classify: Callable[[list[str]], Sequence[Row]]):
        self._classify = classify
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._lock = Lock()
        self._is_closed = False

    def submit(self, texts: Sequence[str]) -> "Future[list[Row]]":
        """Queue texts; return the future of their rows. Callable from any thread."""
        job = Job(texts, Future())
        with self._lock:
            if self._is_closed:
                job.rows.set_exception(ServerClosed())
            else:
                self._queue.put(job)
        return job.rows

    def run(self, is_needed: Callable[[], bool]) -> None:
        """Answer requests while `is_needed`; refuse those that wait at the end."""
        try:
            for batch in self._batches(is_needed):
                self._answer(batch)
        finally:
            with self._lock:
                self._is_closed = True
            while not self._queue.empty():
                _fail([self._queue.get()], ServerClosed())

    def _batches(self, is_needed: Callable[[], bool]) -> Iterator[list[Job]]:
        """Yield what is waiting, in order, as many requests together as fit."""
        job = None
        while is_needed():
            try:
                # With a timeout: without, Windows would not interrupt it.
                job = job or self._queue.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            batch, texts, characters, job = [job], len(job.texts), job.characters, None
            while not self._queue.empty():
                job = self._queue.get()
                texts, characters = texts + len(job.texts), characters + job.characters
                if texts > MOST_TEXTS or characters > MOST_CHARACTERS:
                    break  # it begins the next batch
                batch.append(job)
                job = None
            yield batch

    def _answer(self, batch: list[Job]) -> None:
        batch = [job for job in batch if job.rows.set_running_or_notify_cancel()]
        if not batch:
            return
        try:
            rows = iter(self._classify([text for job in batch for text in job.texts]))
        except Exception as error:
            _fail(batch, error)
        except BaseException:
            _fail(batch, ServerClosed())
            raise
        else:
            for job in batch:
                job.rows.set_result(list(islice(rows, len(job.texts))))


def _fail(batch: Sequence[Job], error: Exception) -> None:
    for job in batch:
        job.rows.set_exception(error)
