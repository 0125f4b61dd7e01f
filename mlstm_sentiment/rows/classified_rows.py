"""From rows to the same rows with answers: `classify`, and batches for those who have rows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.writer import reading
from ..head.answers import answers_of, results_of_no_answer
from ..reading.progress import ProgressBar
from ..reading.records import Record
from ..reading.rows import InputRow, OwnNames, Rows
from ..reading.source import Source
from .sink import RowOutput, Sink
from .summary import Summary

if TYPE_CHECKING:
    from ..head.sentiment_classifier import EncodedTexts, SentimentClassifier


def classify(
    source: Source | Rows | str | Path,
    classifier: "SentimentClassifier",
    sink: Sink | None = None,
    *,
    neuron: bool = False,
    progress: ProgressBar | None = None,
) -> "Classified":
    """Return the rows of a source with the answers of a classifier added to each.

    >>> rows = classify(Source("comments.csv"), classifier, Sink("labelled.csv"))
    >>> for row in rows:
    ...     print(row["label"], row["comment"])
    >>> print("\\n".join(rows.summary.lines()))

    source: a Source, or the name of a file. sink: where the rows are written, too. If it is a file,
    an interrupted loop leaves its rows in PATH.partial, and the same call yields these first,
    without classifying them again. neuron: whether a row also gets the value of the unit that the
    classifier relies on most. progress: shows how far it is. Raises InputError for rows that cannot
    be read.
    """
    if isinstance(source, str | Path):
        source = Source(source)
    rows = source if isinstance(source, Rows) else Rows(source)
    return Classified(rows, classifier, sink, neuron=neuron, progress=progress)


class Classified:
    """Rows with answers; to be iterated over once. summary: counts those that were yielded.

    names: the names in the output of the rows' own keys. outcome: of the row yielded last.
    """

    def __init__(
        self,
        rows: Rows,
        classifier: "SentimentClassifier",
        sink: Sink | None,
        *,
        neuron: bool,
        progress: ProgressBar | None,
    ):
        added = classifier.added_names(neuron=neuron)
        self.names = OwnNames(added, rows.keys)
        (by,) = self.names.of([rows.source.by]) if rows.source.by else (None,)
        self.model = rows.model
        self.summary = Summary(classifier.fitted, by, sides=classifier.sides_, model=rows.model)
        self.outcome = ""
        self._rows, self._classifier, self._sink = rows, classifier, sink
        if sink is not None:  # before anything is computed
            with reading(*rows.source.paths, classifier.loaded.folder):
                sink.check()
        self._neuron = neuron
        self._progress = progress or ProgressBar("classify", shown=classifier.show_progress)

    def __iter__(self) -> Iterator[Record]:
        keys, added = self._rows.keys, self.names.added
        columns = [*self.names.of(keys), *added] if keys else []
        table = self._rows.key.table
        dialect = self._rows.source.dialect("," if table is None else table.delimiter)
        with (
            self._progress as progress,
            nullcontext(RowOutput(None))
            if self._sink is None
            else self._sink.open(self._request(), columns, added, dialect=dialect) as output,
        ):
            for batch in self._answered(output, progress):
                for row in batch:
                    self.outcome = self.summary.add(row)
                    yield row

    def _answered(self, output: RowOutput, progress: ProgressBar) -> Iterator[list[Record]]:
        """Yield the rows in batches, after they are written."""
        tokens = rows = 0
        for batch in self._rows.batches(output.sizes()):
            self.summary.tagged = self._rows.tagged
            own = [self.names.values(row.record) for row in batch]
            encoded = self._classifier.encode([row.text for row in batch if row.text is not None])
            tokens += encoded.size
            if fraction := self._rows.fraction:  # of a file
                progress.expect(tokens / fraction)
            answers = output.take(own)
            if answers is None:
                with advancing(self._classifier, progress.advance):
                    added = _answers(
                        self._classifier, batch, encoded, self.names, sides=self._classifier.sides_
                    )
                merged = list(map(_with_answer, own, added))
                output.write(merged)
            else:
                progress.advance(encoded.size)
                merged = list(map(_with_answer, own, answers))
            rows += len(batch)
            progress.note(f"{rows / max(progress.seconds, 1e-3):.1f} rows/s")
            yield merged

    def _request(self) -> dict[str, Any]:
        """Return all that the answers depend on, except the rows."""
        from ..head.fitted import fitted_digest
        from ..version import installed_version

        classifier, source = self._classifier, self._rows.source
        return {
            "version": installed_version(),
            "text_key": self._rows.key.key or " + ".join(self._rows.key.requested),
            "model": fitted_digest(classifier.loaded, classifier.fitted),
            "unsure": classifier.unsure,
            "precision": classifier.loaded.precision,
            "bits": classifier.bits,
            "neuron": self._neuron,
            "sides": classifier.sides_,
            "shard": str(source.shard),
        }


def classify_batches(
    classifier: "SentimentClassifier",
    batches: Iterable[list[InputRow]],
    names: OwnNames,
    *,
    sides: bool = False,
) -> Iterator[list[Record]]:
    """Yield every batch with the results, `names.added`, added to each row.

    names: the output names of the rows' own values. sides: as for `answers_of`.
    """
    for batch in batches:
        own = [names.values(row.record) for row in batch]
        encoded = classifier.encode([row.text for row in batch if row.text is not None])
        answers = _answers(classifier, batch, encoded, names, sides=sides)
        yield list(map(_with_answer, own, answers))


@contextmanager
def advancing(
    classifier: "SentimentClassifier", advance: Callable[[int], object] | None
) -> Iterator[None]:
    """Let a classifier say how many tokens it has processed; afterwards as its owner wants."""
    before, classifier.advance = classifier.advance, advance
    try:
        yield
    finally:
        classifier.advance = before


def _answers(
    classifier: "SentimentClassifier",
    batch: list[InputRow],
    encoded: "EncodedTexts",
    names: OwnNames,
    *,
    sides: bool,
) -> list[dict[str, Any]]:
    """Return the results for the rows of a batch, by name."""
    predictions = classifier.predict_all(encoded)
    answers = answers_of(classifier.fitted, predictions, names.added, sides=sides)
    nothing = results_of_no_answer(names.added)
    return [nothing if row.text is None else next(answers) for row in batch]


def _with_answer(values: Record, answer: dict[str, Any]) -> Record:
    """Return the values of a row followed by its results."""
    row = Record({**values, **answer})
    row.place = values.place
    return row
