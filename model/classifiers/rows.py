"""Adds to each row of a table its label, probability and neuron value."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import InputError
from ..reading.records import Record
from ..reading.texts import KeyChooser, text_of

if TYPE_CHECKING:  # reading rows needs no torch
    from .sentiment_classifier import SentimentClassifier, Verdicts

BATCH_ROWS = 1024  # read together, so that texts of similar length can share a batch
FIRST_ROWS = 64  # of the first batch; the next ones double, so that answers are there soon
BATCH_CHARACTERS = 1 << 24  # or fewer rows, if they are long
OF_A_CELL = 64  # characters of overhead for a value
RENAMED = "input_"
DIGITS = 7  # significant ones

log = logging.getLogger(__name__)


class IsKnown(Protocol):
    """Says whether a row with these values was already answered."""

    def __call__(self, values: Mapping[str, Any], /, *, is_answered: bool) -> bool: ...


class InputRow(NamedTuple):
    """A record with its text; None if that is missing, or nothing but white space."""

    record: Record
    text: str | None


def rows_of(
    records: Iterable[Record], key: KeyChooser, location: object, *, are_alike: bool
) -> Iterator[InputRow]:
    """Yield the records with their texts; the first ones may lack the key.

    are_alike: whether all records have the same keys, so that the first one shows whether there is
    a text. Raises InputError for a text that is none, and if there is no record or none has the
    key: at the first one if they are alike, else at the end of the input.
    """
    for record in records:
        text = text_of(key.value(record), record.place)
        if are_alike:
            key.conclude(location)
        yield InputRow(record, text if text and not text.isspace() else None)
    key.conclude(location)


def in_batches(
    rows: Iterable[InputRow],
    waiting: Callable[[], bool] | None = None,
    most_characters: int = BATCH_CHARACTERS,
) -> Iterator[list[InputRow]]:
    """Group rows into batches of FIRST_ROWS to BATCH_ROWS, fewer where rows are long.

    waiting: whether more rows have arrived; if not, a batch is complete. Rows before a refused one
    are a batch, too, since a stream does not repeat them.
    """
    batch: list[InputRow] = []
    characters, size = 0, FIRST_ROWS
    try:
        for row in rows:
            batch.append(row)
            characters += _extent(row.record)
            is_full = len(batch) >= size or characters >= most_characters
            if is_full or (waiting is not None and not waiting()):
                yield batch
                batch, characters, size = [], 0, min(2 * size, BATCH_ROWS)
    except InputError:
        if batch and waiting is not None:
            yield batch
        raise
    if batch:
        yield batch


def _extent(record: Record) -> int:
    """Return about how many characters a record takes, nested values included."""
    size, left = 0, list[Any](record.values())
    while left:
        value = left.pop()
        size += OF_A_CELL + (len(value) if isinstance(value, (str, bytes)) else 0)
        if isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set)):
            left += value
    return size


def classify_batches(
    classifier: "SentimentClassifier",
    batches: Iterable[list[InputRow]],
    is_known: IsKnown | None = None,
) -> Iterator[list[Record]]:
    """Yield every batch with what was found added to its rows.

    is_known: called with a row's own values, by their names in the output, and whether it has a
    text. Rows that are known, the first ones, are left out.

    label; probability: of the positive one of two classes, else of the label; of more than two
    also probability_CLASS each; unsure: of two classes, whether the probability lies between the
    classifier's two thresholds; stars: expected, if the classifier predicts them; neuron: the unit
    that the classifier relies on most, after the text. If a text may have several labels: labels, a
    list, and probability_CLASS each. Always bits_per_character, how well the model predicts the
    text, and unfamiliar, whether it is too short or unlike what the model has read; None if that is
    not known. All are None if a row has no text, or only white space. A row's own value under such
    a name moves to input_NAME.
    """
    names = added_names(classifier)
    told = False
    for batch in batches:
        taken = [name for name in names if any(name in row.record for row in batch)]
        if taken and not told:
            told = True
            log.info(
                "%s: %s of the input: now %s",
                batch[0].record.place,
                ", ".join(taken),
                ", ".join(RENAMED + name for name in taken),
            )
        known = 0 if is_known is None else _known_rows(batch, names, is_known)
        if known < len(batch):
            yield _with_findings(classifier, batch)[known:]  # digits as if uninterrupted
        elif classifier.advance is not None:
            classifier.advance(tokens_in(batch, classifier))


def _known_rows(batch: Sequence[InputRow], names: list[str], is_known: IsKnown) -> int:
    """Return how many rows at the beginning of a batch are known."""
    for count, (record, text) in enumerate(batch):
        if not is_known(own_values(record, names), is_answered=text is not None):
            return count
    return len(batch)


def tokens_in(batch: Iterable[InputRow], classifier: "SentimentClassifier") -> int:
    """Count the tokens of a batch."""
    return sum(len(classifier.loaded.tokens(text)) for _, text in batch if text is not None)


def added_names(classifier: "SentimentClassifier") -> list[str]:
    """Return the names of what is added to a row."""
    from .stars import StarsClassifier

    fitted = classifier.fitted
    each = [] if fitted.is_binary else [f"probability_{name}" for name in classifier.classes]
    always = ["bits_per_character", "unfamiliar"]
    if fitted.is_multilabel:
        return ["labels", *each, *always]
    stars = ["stars"] if isinstance(fitted, StarsClassifier) else []
    unsure = ["unsure"] if fitted.is_binary else []
    return ["label", "probability", *unsure, *stars, "neuron", *each, *always]


def _with_findings(classifier: "SentimentClassifier", batch: list[InputRow]) -> list[Record]:
    present = {number: text for number, (_, text) in enumerate(batch) if text is not None}
    findings = dict(zip(present, _findings(classifier, list(present.values())), strict=True))
    names = added_names(classifier)
    nothing = dict.fromkeys(names)
    rows = []
    for number, (record, _) in enumerate(batch):
        merged = Record({**own_values(record, names), **findings.get(number, nothing)})
        merged.place = record.place
        rows.append(merged)
    return rows


def _findings(classifier: "SentimentClassifier", texts: list[str]) -> Iterator[dict[str, Any]]:
    found = classifier.read(texts)
    names = added_names(classifier)
    for row in range(len(texts)):
        values = _told(classifier, found, row)
        yield {name: values[name] for name in names}


def _told(classifier: "SentimentClassifier", found: "Verdicts", row: int) -> dict[str, Any]:
    """Return the results for a text, by name; None for those that do not apply."""
    choice, probabilities = found.choices[row], list(map(_rounded, found.probabilities[row]))
    bits, unfamiliar = float(found.bits_per_character[row]), found.unfamiliar[row]
    told: dict[str, Any] = {
        "bits_per_character": None if math.isnan(bits) else _rounded(bits),
        "unfamiliar": None if unfamiliar is None else bool(unfamiliar),
    }
    for name, values in (
        ("unsure", found.unsure),
        ("stars", found.stars),
        ("neuron", found.neuron),
    ):
        told[name] = None if values is None else _rounded(values[row].item())
    for name, probability in zip(classifier.classes, probabilities, strict=True):
        told[f"probability_{name}"] = probability
    if classifier.fitted.is_multilabel:
        told["labels"] = [n for n, c in zip(classifier.classes, choice, strict=True) if c]
    else:
        told["label"] = classifier.classes[choice]
        told["probability"] = probabilities[1 if classifier.fitted.is_binary else choice]
    return told


def _rounded(value: Any) -> Any:
    """Round a float to the digits of fp32; return anything else unchanged."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def columns_of(keys: Iterable[str], classifier: "SentimentClassifier") -> list[str]:
    """Return the names of what rows with these keys have in the output."""
    names = added_names(classifier)
    return [*own_values(dict.fromkeys(keys), names), *names]


def own_values(record: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return a row's own values by their names in the output, to which `names` are added."""
    values = {}
    for name, value in record.items():
        new = name
        while new in names or (new != name and new in record):
            new = RENAMED + new
        values[new] = value
    return values
