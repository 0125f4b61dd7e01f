"""What the server answers to texts: what `classify` adds to their rows.

The texts of requests that wait at the same time are answered together.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from ..head.answers import added_names
from ..head.sentiment_classifier import SentimentClassifier
from ..reading.no_answer import answered_text

AnswerRow = dict[str, Any]
Answer = Callable[[list[str], bool, Callable[[int], object]], list[AnswerRow]]
"""Returns a row for each text. The second argument: whether the label is to be one of two sides.

The third is called every few hundredths of a second, with the number of tokens just processed; an
error that it raises ends the computation.
"""


class _NobodyWaits(Exception):
    """Those who asked have left, their time is up, or the server ends."""


class _Job(NamedTuple):
    """The texts of a request, and where their rows go."""

    texts: list[str]
    sides: bool
    rows: "Future[list[AnswerRow]]"


class Batcher:
    """Answers requests in threads; each thread takes what waits, up to a number of texts.

    most_texts: no further request is taken together with so many. Texts side by side take hardly
    longer than one: the weights are read once for all.
    """

    def __init__(self, answer: Answer, most_texts: int, threads: int):
        self._answer, self._most_texts = answer, most_texts
        self._waiting: deque[_Job] = deque()
        self._threads = ThreadPoolExecutor(threads)

    def submit(self, texts: list[str], sides: bool) -> "Future[list[AnswerRow]]":
        """Return the future of a request's rows; a batch whose futures are all cancelled ends."""
        job = _Job(texts, sides, Future())
        self._waiting.append(job)
        self._threads.submit(self._answer_waiting)
        return job.rows

    def _answer_waiting(self) -> None:
        jobs: list[_Job] = []
        with suppress(IndexError):  # none is left, or another thread took it
            while sum(len(job.texts) for job in jobs) < self._most_texts:
                job = self._waiting.popleft()
                if not job.rows.cancelled():
                    jobs.append(job)
        for sides in (False, True):
            self._deliver([job for job in jobs if job.sides is sides])

    def _deliver(self, jobs: list[_Job]) -> None:
        """Answer requests of one kind together; of an error, find the one whose texts cause it."""
        jobs = [job for job in jobs if not job.rows.cancelled()]
        if not jobs:
            return

        def advance(tokens: int) -> None:
            if all(job.rows.cancelled() for job in jobs):
                raise _NobodyWaits

        try:
            texts = list(chain.from_iterable(job.texts for job in jobs))
            rows = iter(self._answer(texts, jobs[0].sides, advance))
        except Exception as error:
            if half := len(jobs) // 2:
                self._deliver(jobs[:half])
                self._deliver(jobs[half:])
            elif jobs[0].rows.set_running_or_notify_cancel():
                jobs[0].rows.set_exception(error)
            return
        for job in jobs:
            own = list(islice(rows, len(job.texts)))
            if job.rows.set_running_or_notify_cancel():
                job.rows.set_result(own)


class TooManyTokens(Exception):
    """A text of a request is longer than the server takes."""


def rows_of_texts(
    classifier: SentimentClassifier,
    most_tokens: int,
    texts: list[str],
    sides: bool,
    advance: Callable[[int], object] | None = None,
) -> list[AnswerRow]:
    """Return a row for each text; TooManyTokens, before any is computed, if one has more.

    sides: whether the label is to be one of two sides. advance: called every few hundredths of a
    second, with the number of tokens just processed; an error that it raises ends the computation.
    """
    answered = list(map(answered_text, texts))
    encoded = classifier.encode([text for text in answered if text is not None])
    numbers = [number for number, text in enumerate(answered, start=1) if text is not None]
    for number, tokens in zip(numbers, encoded.tokens, strict=True):
        if len(tokens) > most_tokens:
            message = f"text {number} has {len(tokens):,} tokens; at most {most_tokens:,} a text"
            raise TooManyTokens(message)
    names = added_names(classifier.fitted, sides=sides)
    return classifier.results(answered, names, sides=sides, encoded=encoded, advance=advance)
