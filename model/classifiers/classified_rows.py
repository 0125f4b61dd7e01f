"""Adds the results of a classifier to rows, batch by batch."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..reading.records import Record
from .answers import answers_of
from .rows import InputRow, OwnNames

if TYPE_CHECKING:  # reading rows needs no torch
    from .sentiment_classifier import EncodedTexts, SentimentClassifier

IsAnswered = Callable[[Mapping[str, Any]], bool]  # whether a row with these values was answered


def classify_batches(
    classifier: "SentimentClassifier",
    batches: Iterable[list[InputRow]],
    names: OwnNames,
    is_answered: IsAnswered | None = None,
    on_size: Callable[[int], object] = lambda tokens: None,
    *,
    sides: bool = False,
) -> Iterator[list[Record]]:
    """Yield every batch with the results, `names.added`, added to each row; None without a text.

    names: the output names of the rows' own values. is_answered: called with a row's own values by
    name; the first rows for which it is true are left out. on_size: called with the number of
    tokens in a batch before it is classified. sides: as for `answers_of`.
    """
    for batch in batches:
        own = [names.values(row.record) for row in batch]
        encoded = classifier.encode([row.text for row in batch if row.text is not None])
        on_size(encoded.size)
        answered = 0 if is_answered is None else sum(1 for _ in takewhile(is_answered, own))
        if answered < len(batch):
            rows = _with_answers(classifier, batch, own, encoded, names, sides)
            yield rows[answered:]  # classified with the whole batch: the same digits
        elif classifier.advance is not None:
            classifier.advance(encoded.size)


def _with_answers(
    classifier: "SentimentClassifier",
    batch: list[InputRow],
    own: list[dict[str, Any]],
    encoded: "EncodedTexts",
    names: OwnNames,
    sides: bool,
) -> list[Record]:
    predictions = classifier.predict_all(encoded)
    answers = answers_of(classifier.fitted, predictions, names.added, sides=sides)
    nothing = dict.fromkeys(names.added)
    rows = []
    for row, values in zip(batch, own, strict=True):
        merged = Record({**values, **(nothing if row.text is None else next(answers))})
        merged.place = row.record.place
        rows.append(merged)
    return rows
