"""Classifies the texts of concurrent requests together, in the one thread that owns the model."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

AnswerRow = dict[str, Any]

MOST_TEXTS = 128  # of a batch: what the classifier processes at the same time
MOST_CHARACTERS = 1 << 16  # of a batch, so that the requests in it share a wait of seconds
POLL_SECONDS = 1.0


class ServerClosed(Exception):
    """The server ends before it has answered."""


class Submission(NamedTuple):
    """The texts of a request, and where their rows go."""

    texts: Sequence[str]
    rows: "Future[list[AnswerRow]]"
    sides: bool = False  # whether the label is to be one of two sides

    @property
    def characters(self) -> int:
        """The length of all texts together."""
        return sum(map(len, self.texts))


class Batcher:
    """A queue of requests; `run` answers all that are waiting with one call of `classify`.

    classify: returns one row per text, from texts and whether the label is to be one of two sides;
    called only by the thread that calls `run`.
    """

    def __init__(self, classify: Callable[[list[str], bool], Sequence[AnswerRow]]):
        self._classify = classify
        self._queue: SimpleQueue[Submission] = SimpleQueue()
        self._lock = Lock()
        self._held: list[Submission] = []  # what did not fit into the batch before
        self._is_closed = False

    def submit(self, texts: Sequence[str], sides: bool = False) -> "Future[list[AnswerRow]]":
        """Queue texts; return the future of their rows. Callable from any thread."""
        job = Submission(texts, Future(), sides)
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
                for sides in (False, True):
                    self._answer([job for job in batch if job.sides is sides], sides)
        finally:
            with self._lock:
                self._is_closed = True
            waiting, self._held = self._held, []
            while not self._queue.empty():
                waiting.append(self._queue.get())
            _fail(_not_cancelled(waiting), ServerClosed())

    def _batches(self, is_needed: Callable[[], bool]) -> Iterator[list[Submission]]:
        """Yield what is waiting, in order, as many requests together as fit."""
        while is_needed():
            try:
                # With a timeout: without, Windows would not interrupt it.
                job = self._held.pop() if self._held else self._queue.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            batch, texts, characters = [job], len(job.texts), job.characters
            while not self._queue.empty() and not self._held:
                job = self._queue.get()
                texts, characters = texts + len(job.texts), characters + job.characters
                fits = texts <= MOST_TEXTS and characters <= MOST_CHARACTERS
                (batch if fits else self._held).append(job)
            yield batch

    def _answer(self, batch: list[Submission], sides: bool) -> None:
        batch = _not_cancelled(batch)
        if not batch:
            return
        try:
            rows = iter(self._classify([text for job in batch for text in job.texts], sides))
        except Exception as error:
            _fail(batch, error)
        except BaseException:
            _fail(batch, ServerClosed())
            raise
        else:
            for job in batch:
                job.rows.set_result(list(islice(rows, len(job.texts))))


def _not_cancelled(batch: Sequence[Submission]) -> list[Submission]:
    """Return the requests that were not cancelled; from now on they cannot be."""
    return [job for job in batch if job.rows.set_running_or_notify_cancel()]


def _fail(batch: Sequence[Submission], error: Exception) -> None:
    for job in batch:
        job.rows.set_exception(error)
