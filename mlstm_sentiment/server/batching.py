"""Classifies the texts of concurrent requests in slices, so that none waits for a long one."""

import time
from collections import defaultdict
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
_SMALLEST_BITS = 8  # texts of fewer than 256 tokens are of one size


class ServerClosed(Exception):
    """The server ends before it has answered."""


class TooManyTokens(Exception):
    """A text of a request is longer than the server takes."""


class _NobodyWaits(Exception):
    """Those who asked for the texts of a slice have left."""


Meanwhile = Callable[[int], object]
"""Called with the number of tokens just processed, every few hundredths of a second."""
Classify = Callable[[list[str], bool, Meanwhile], Sequence[AnswerRow]]


class _Submission:
    """The texts of a request, the answers so far, and where they go."""

    def __init__(self, texts: Sequence[str], sides: bool):
        self.texts, self.sides = texts, sides
        self.rows: Future[list[AnswerRow]] = Future()
        self.tokens: Sequence[int] = ()  # of each text, once they are counted
        self.answers: list[AnswerRow] = []
        self.is_running = False

    @property
    def size(self) -> int:
        """The size of the longest text that is left: one more for four times the tokens."""
        return (max(max(self.left).bit_length(), _SMALLEST_BITS) + 1) // 2

    @property
    def left(self) -> Sequence[int]:
        return self.tokens[len(self.answers) :]

    def fitting(self, texts: int, tokens: float) -> int:
        """Return how many of the texts that are left fit into so many texts and tokens."""
        sums = accumulate(self.left[:texts])
        return sum(1 for _ in takewhile(lambda used: used <= tokens, sums))


class Batcher:
    """A queue of requests; `run` answers them a slice at a time, so that none waits for a long one.

    A slice has texts of about the same length, which are processed side by side in about a second,
    or in the time that its longest text takes. Meanwhile, shorter texts of other requests are
    processed. Half of a slice belongs to one request, in turn, and at least one text of it; the
    other half to those that have the fewest tokens left.

    classify: returns one row per text, from texts, whether the label is to be one of two sides, and
    a function that it calls while it processes them. count_tokens: of each text. Both are called
    only by the thread that calls `run`. most_tokens: of a text.
    """

    def __init__(
        self,
        classify: Classify,
        count_tokens: Callable[[Sequence[str]], Sequence[int]],
        most_tokens: int,
    ):
        self._classify, self._count_tokens = classify, count_tokens
        self._most_tokens = most_tokens
        self._queue: SimpleQueue[_Submission] = SimpleQueue()
        self._lock = Lock()
        self._waiting: list[_Submission] = []  # the next in turn comes first
        self._rates: dict[int, float] = defaultdict(lambda: _FIRST_RATE)  # of each size of texts
        self._is_closed = False

    def submit(self, texts: Sequence[str], sides: bool = False) -> "Future[list[AnswerRow]]":
        """Queue texts; return the future of their rows. Callable from any thread.

        To cancel it, at any time before it has its rows, leaves out the texts that are left.
        """
        job = _Submission(texts, sides)
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
                self._receive(0.0 if self._waiting else POLL_SECONDS)
                self._answer(self._next_slice())
        finally:
            with self._lock:
                self._is_closed = True
            while not self._queue.empty():
                self._waiting.append(self._queue.get())
            self._fail(list(self._waiting), ServerClosed())

    def _receive(self, timeout: float = 0.0) -> None:
        """Take what has arrived; wait for the first if there is a timeout."""
        # With a timeout: without, Windows would not interrupt it.
        try:
            while True:
                job = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
                timeout = 0.0
                self._waiting.append(job)
                self._count(job)
        except Empty:
            self._waiting = [job for job in self._waiting if not job.rows.cancelled()]

    def _count(self, job: _Submission) -> None:
        try:
            job.tokens = self._count_tokens(job.texts)
        except Exception as error:
            return self._fail([job], error)
        for number, tokens in enumerate(job.tokens, start=1):
            if tokens > self._most_tokens:
                most = f"at most {self._most_tokens:,} a text"
                message = f"text {number} has {tokens:,} tokens; {most}"
                return self._fail([job], TooManyTokens(message))

    def _next_slice(self, below: int | None = None) -> list[tuple[_Submission, int]]:
        """Return what to process next: requests of texts of one size, and how many of their texts.

        below: what this size is below. It is the largest, since smaller texts need not wait for it.
        """
        ready = [
            job
            for job in self._waiting
            if not job.is_running and (below is None or job.size < below)
        ]
        if not ready:
            return []
        size = max(job.size for job in ready)
        first, *others = [job for job in ready if job.size == size]
        self._waiting.remove(first)
        self._waiting.append(first)
        rate = self._rates[size] * SLICE_SECONDS
        budget = max(rate, _LEAST_TOKENS, _LANES * max(first.left))
        half = 2 if others else 1
        count = max(first.fitting(MOST_TEXTS // half, budget / half), 1)
        chosen, texts = [(first, count)], MOST_TEXTS - count
        tokens = budget - sum(first.left[:count])
        for job in sorted(others, key=lambda job: sum(job.left)):
            count = job.fitting(texts, tokens)
            if not count:
                break
            chosen.append((job, count))
            texts, tokens = texts - count, tokens - sum(job.left[:count])
        return chosen

    def _answer(self, chosen: list[tuple[_Submission, int]]) -> None:
        """Classify the texts of a slice, and meanwhile shorter ones; deliver what is complete."""
        for job, _ in chosen:
            job.is_running = True
        for parts in _by_sides(chosen):
            size = parts[0][0].size
            texts = [
                text
                for job, count in parts
                for text in job.texts[len(job.answers) : len(job.answers) + count]
            ]
            tokens = sum(sum(job.left[:count]) for job, count in parts)

            def meanwhile(_: int, parts: Any = parts, size: int = size) -> None:
                self._receive()
                if all(job.rows.cancelled() for job, _ in parts):
                    raise _NobodyWaits
                self._answer(self._next_slice(size))

            begin = time.perf_counter()
            try:
                rows = iter(self._classify(texts, parts[0][0].sides, meanwhile))
            except Exception as error:
                self._fail([job for job, _ in parts], error)
                continue
            measured = tokens / max(time.perf_counter() - begin, 1e-6)
            self._rates[size] = (self._rates[size] + measured) / 2
            for job, count in parts:
                job.is_running = False
                job.answers += [next(rows) for _ in range(count)]
                if len(job.answers) == len(job.texts) and self._leaves(job):
                    job.rows.set_result(job.answers)

    def _fail(self, jobs: Sequence[_Submission], error: Exception) -> None:
        for job in jobs:
            if self._leaves(job):
                job.rows.set_exception(error)

    def _leaves(self, job: _Submission) -> bool:
        """End the wait of a request; return whether anybody still waits for its rows."""
        if job in self._waiting:  # if it was cancelled while its texts were processed, it is not
            self._waiting.remove(job)
        return job.rows.set_running_or_notify_cancel()


def _by_sides(parts: Sequence[tuple[_Submission, int]]) -> Iterator[list[tuple[_Submission, int]]]:
    for sides in (False, True):
        if same := [part for part in parts if part[0].sides is sides]:
            yield same
