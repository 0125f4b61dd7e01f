"""From rows to the same rows with answers: `classify`."""

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.writer import reading
from ..reading.progress import ProgressBar
from ..reading.rows import Rows, own_name
from ..reading.source import Source
from ..reading.tables import Record
from .sink import RowOutput, Sink
from .summary import Summary

if TYPE_CHECKING:
    from ..head.sentiment_classifier import SentimentClassifier

_log = logging.getLogger(__name__)


def classify(
    source: Source | Rows | str | Path,
    classifier: "SentimentClassifier",
    sink: Sink | None = None,
    *,
    neuron: bool = False,
    progress: ProgressBar | None = None,
) -> "_Classified":
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
    if not isinstance(source, Source | Rows):
        source = Source(source)
    rows = (
        source if isinstance(source, Rows) else Rows(source, show_progress=classifier.show_progress)
    )
    return _Classified(rows, classifier, sink, neuron=neuron, progress=progress)


class _Classified:
    """Rows with answers; to be iterated over once.

    summary: counts those that were yielded. added: the names of the results in a row.
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
        self.added = classifier.added_names(neuron=neuron)
        by = rows.source.by and own_name(rows.source.by, self.added)
        self.summary = Summary(classifier.fitted, rows.model, by, sides=classifier.sides_)
        self._rows, self._classifier, self._sink = rows, classifier, sink
        if sink is not None:  # before anything is computed
            with reading(*rows.source.paths, classifier.loaded.folder):
                sink.check(rows)
        self._neuron = neuron
        self._progress = progress or ProgressBar("classify", shown=classifier.show_progress)

    def __iter__(self) -> Iterator[Record]:
        keys, added = self._rows.keys, self.added
        renamed = {key: name for key in keys if (name := own_name(key, added)) != key}
        if renamed:
            old, new = ", ".join(renamed), ", ".join(renamed.values())
            _log.info("%s: renamed %s of the input to %s", self._rows.source.name, old, new)
        columns = [*(renamed.get(key, key) for key in keys), *added] if keys else []
        table = self._rows.key.table
        dialect = self._rows.source.dialect("," if table is None else table.delimiter)
        with (
            self._progress as progress,
            nullcontext(RowOutput())
            if self._sink is None
            else self._sink.open(self._request(), columns, added, dialect=dialect) as output,
        ):
            for batch in self._answered(output, progress):
                for row in batch:
                    self.summary.add(row)
                    yield row

    def _answered(self, output: RowOutput, progress: ProgressBar) -> Iterator[list[Record]]:
        tokens = rows = 0
        classifier = self._classifier
        for batch in self._rows.batches():
            self.summary.tagged = self._rows.tagged
            own = [
                Record(((own_name(k, self.added), v) for k, v in record.items()), record.place)
                for record, _ in batch
            ]
            answers = output.take(own)
            texts = [row.text for row in batch]
            written, new = (
                classifier.encode([text for text in part if text is not None])
                for part in (texts[: len(answers)], texts[len(answers) :])
            )
            tokens, rows = tokens + written.size + new.size, rows + len(batch)
            if count := self._rows.count:  # of a file
                progress.expect(tokens * count / rows)
            progress.advance(written.size)
            first = len(answers)
            answers += classifier.results(
                texts[first:],
                self.added,
                sides=classifier.sides_,
                encoded=new,
                advance=progress.advance,
            )
            merged = [
                Record(values | answer, values.place)
                for values, answer in zip(own, answers, strict=True)
            ]
            output.write(merged[first:])
            progress.note(f"{rows / max(progress.seconds, 1e-3):.1f} rows/s")
            yield merged

    def _request(self) -> dict[str, Any]:
        from ..head.head_files import fitted_digest
        from ..version import installed_version

        classifier, source = self._classifier, self._rows.source
        return {
            "version": installed_version(),
            "text_key": self._rows.key.key or " + ".join(self._rows.key.requested),
            "model": fitted_digest(classifier.loaded, classifier.fitted),
            "unsure": classifier.unsure_,
            "precision": classifier.loaded.precision,
            "bits": classifier.bits_,
            "neuron": self._neuron,
            "sides": classifier.sides_,
            "shard": str(source.shard),
        }
