"""Classifies the texts of concurrent requests in slices of about a second, in one thread."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import accumulate, takewhile
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

AnswerRow = dict[str, Any]

MOST_TEXTS = 128  # of a slice: what the classifier processes at the same time
SLICE_SECONDS = 1.0
POLL_SECONDS = 1.0
_FIRST_RATE = 10_000.0  # tokens a second, until it is measured
_LANES = 4  # texts side by side take hardly longer than the longest of them
_LEAST_TOKENS = 1_000  # of a slice, however slow one of few tokens was


class ServerClosed(Exception):
    """The server ends before it has answered."""


class TooManyTokens(Exception):
    """A text of a request is longer than the server takes."""


class Submission:
    """The texts of a request, the answers so far, and where they go."""

    def __init__(self, texts: Sequence[str], sides: bool):
        self.texts, self.sides = texts, sides
        self.rows: Future[list[AnswerRow]] = Future()
        self.tokens: Sequence[int] = ()  # of each text, once they are counted
        self.answers: list[AnswerRow] = []

    @property
    def left(self) -> Sequence[int]:
        """The tokens of each text that has no answer yet."""
        return self.tokens[len(self.answers) :]

    def fitting(self, texts: int, tokens: float) -> int:
        """Return how many of the texts that are left fit into so many texts and tokens."""
        sums = accumulate(self.left[:texts])
        return sum(1 for _ in takewhile(lambda used: used <= tokens, sums))


class Batcher:
    """A queue of requests; `run` answers them a slice at a time, so that none waits for a long one.

    A slice takes about a second. Half of it belongs to one request, in turn, and at least one text
    of it; the other half, which comes first, to those that have the fewest tokens left. A long text
    takes others along.

    classify: returns one row per text, from texts and whether the label is to be one of two sides.
    count_tokens: of each text. Both are called only by the thread that calls `run`.
    most_tokens: of a text.
    """

    def __init__(
        self,
        classify: Callable[[list[str], bool], Sequence[AnswerRow]],
        count_tokens: Callable[[Sequence[str]], Sequence[int]],
        most_tokens: int,
    ):
        self._classify, self._count_tokens = classify, count_tokens
        self._most_tokens = most_tokens
        self._queue: SimpleQueue[Submission] = SimpleQueue()
        self._lock = Lock()
        self._waiting: list[Submission] = []  # the next in turn comes first
        self._rate = _FIRST_RATE
        self._is_closed = False

    def submit(self, texts: Sequence[str], sides: bool = False) -> "Future[list[AnswerRow]]":
        """Queue texts; return the future of their rows. Callable from any thread.

        To cancel it, at any time before it has its rows, leaves out the texts that are left.
        """
        job = Submission(texts, sides)
        with self._lock:
            if self._is_closed:
                job.rows.set_exception(ServerClosed())
            elif not texts:
                job.rows.set_result([])
            else:
                self._queue.put(job)
        return job.rows

    def run(self, is_needed: Callable[[], bool]) -> None:
        """Answer requests while `is_needed`; refuse those that wait at the end."""
        try:
            while is_needed():
                self._receive()
                self._answer(self._next_slice())
        finally:
            with self._lock:
                self._is_closed = True
            while not self._queue.empty():
                self._waiting.append(self._queue.get())
            self._fail(list(self._waiting), ServerClosed())

    def _receive(self) -> None:
        """Take what has arrived, and wait for it if there is nothing else to do."""
        # With a timeout: without, Windows would not interrupt it.
        timeout = 0.0 if self._waiting else POLL_SECONDS
        try:
            while True:
                job = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
                timeout = 0.0
                self._waiting.append(job)
                self._count(job)
        except Empty:
            self._waiting = [job for job in self._waiting if not job.rows.cancelled()]

    def _count(self, job: Submission) -> None:
        try:
            job.tokens = self._count_tokens(job.texts)
        except Exception as error:
            return self._fail([job], error)
        for number, tokens in enumerate(job.tokens, start=1):
            if tokens > self._most_tokens:
                most = f"at most {self._most_tokens:,} a text"
                message = f"text {number} has {tokens:,} tokens; {most}"
                return self._fail([job], TooManyTokens(message))

    def _next_slice(self) -> list[tuple[Submission, int]]:
        """Return what to process next: requests, and how many of their texts."""
        if not self._waiting:
            return []
        budget = max(self._rate * SLICE_SECONDS, _LEAST_TOKENS)
        first, *others = self._waiting
        self._waiting = [*others, first]
        half = 2 if others else 1
        count = max(first.fitting(MOST_TEXTS // half, budget / half), 1)
        chosen, texts = [(first, count)], MOST_TEXTS - count
        tokens = max(budget / 2, (_LANES - 1) * max(first.left[:count]))
        for job in sorted(others, key=lambda job: sum(job.left)):
            count = job.fitting(texts, tokens)
            if not count:
                break
            chosen.append((job, count))
            texts, tokens = texts - count, tokens - sum(job.left[:count])
        return chosen

    def _answer(self, chosen: list[tuple[Submission, int]]) -> None:
        """Classify the texts of a slice and deliver what is complete, first what takes little."""
        begin, tokens = time.perf_counter(), 0
        sizes = accumulate(sum(job.left[:count]) for job, count in chosen[1:])
        few = 1 + sum(size <= self._rate * SLICE_SECONDS / 2 for size in sizes)
        for parts in (*_by_sides(chosen[1:few]), *_by_sides([*chosen[:1], *chosen[few:]])):
            texts = [
                text
                for job, count in parts
                for text in job.texts[len(job.answers) : len(job.answers) + count]
            ]
            try:
                rows = iter(self._classify(texts, parts[0][0].sides))
            except Exception as error:
                self._fail([job for job, _ in parts], error)
                continue
            for job, count in parts:
                tokens += sum(job.left[:count])
                job.answers += [next(rows) for _ in range(count)]
                if len(job.answers) == len(job.texts) and self._leaves(job):
                    job.rows.set_result(job.answers)
        if tokens:
            measured = tokens / max(time.perf_counter() - begin, 1e-6)
            self._rate = (self._rate + measured) / 2

    def _fail(self, jobs: Sequence[Submission], error: Exception) -> None:
        for job in jobs:
            if self._leaves(job):
                job.rows.set_exception(error)

    def _leaves(self, job: Submission) -> bool:
        """End the wait of a request; return whether anybody still waits for its rows."""
        self._waiting.remove(job)
        return job.rows.set_running_or_notify_cancel()


def _by_sides(parts: Sequence[tuple[Submission, int]]) -> Iterator[list[tuple[Submission, int]]]:
    """Yield the parts of a slice that are classified together."""
    for sides in (False, True):
        if same := [part for part in parts if part[0].sides is sides]:
            yield same
