"""Adds to each row of a table its label, probability and neuron value."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..reading.records import Record
from ..reading.texts import KeyChooser, unicode_text

if TYPE_CHECKING:  # reading rows needs no torch
    from .sentiment_classifier import SentimentClassifier, Verdicts

BATCH_ROWS = 1024  # read together, so that texts of similar length can share a batch
FIRST_ROWS = 64  # of the first batch; the next ones double, so that answers are there soon
BATCH_CHARACTERS = 1 << 24  # or fewer rows, if they are long
OF_A_CELL = 64  # characters of overhead for a value
RENAMED = "input_"
DIGITS = 7  # significant ones

IsKnown = Callable[[Mapping[str, Any]], bool]  # whether a row with these values was answered

log = logging.getLogger(__name__)


class OwnNames:
    """The names in the output of the rows' own keys.

    A key that is the name of a result becomes input_KEY; no name is given to two keys.

    added: the names of the results. keys: those of all rows, as far as known; any other one gets
    its name from the first row that has it, and keeps it.
    """

    def __init__(self, added: Sequence[str], keys: Collection[str] = ()):
        self.added = added
        self._names: dict[str, str] = {}  # by key
        self._told: set[str] = set()
        self.of(keys)

    def of(self, keys: Collection[str]) -> list[str]:
        """Return the names of the keys of a row, or of all rows, in their order."""
        return [self._name(key, keys) for key in keys]

    def values(self, record: Record) -> dict[str, Any]:
        """Return a row's own values by their names; a new name is logged once."""
        names = self.of(record)
        self._tell(dict(zip(record, names, strict=True)), record.place)
        return dict(zip(names, record.values(), strict=True))

    def _tell(self, names: Mapping[str, str], place: str) -> None:
        new = {k: name for k, name in names.items() if name != k and k not in self._told}
        self._told |= new.keys()
        if new:
            log.info("%s: %s of the input: now %s", place, ", ".join(new), ", ".join(new.values()))

    def _name(self, key: str, others: Collection[str]) -> str:
        if key not in self.added and not key.startswith(RENAMED):
            return key  # which no other key can become; a stream may have ever more of these
        if key not in self._names:
            taken = {*self.added, *self._names.values()}
            name = key
            while name in taken or (name != key and name in others):
                name = RENAMED + name
            self._names[key] = name
        return self._names[key]


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
        text = unicode_text(key.value(record), record.place)
        if are_alike:
            key.require(location)
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
    names: OwnNames,
    is_known: IsKnown | None = None,
) -> Iterator[list[Record]]:
    """Yield every batch with what was found added to its rows.

    names: of the rows' own values. is_known: called with these, by name. Rows that are known, the
    first ones, are left out.

    label; probability: of the positive one of two classes, else of the label; of more than two
    also probability_CLASS each; unsure: of two classes, whether the probability lies between the
    classifier's two thresholds; stars: expected, if the classifier predicts them; neuron: the unit
    that the classifier relies on most, after the text. If a text may have several labels: labels, a
    list, and probability_CLASS each. Always bits_per_character, how well the model predicts the
    text, and unfamiliar, whether it is too short or unlike what the model has read; None if that is
    not known. All are None if a row has no text, or only white space.
    """
    for batch in batches:
        own = [names.values(row.record) for row in batch]
        known = 0 if is_known is None else sum(1 for _ in takewhile(is_known, own))
        if known < len(batch):
            yield _with_findings(classifier, batch, own)[known:]  # digits as if uninterrupted
        elif classifier.advance is not None:
            classifier.advance(tokens_in(batch, classifier))


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


def _with_findings(
    classifier: "SentimentClassifier", batch: list[InputRow], own: list[dict[str, Any]]
) -> list[Record]:
    present = {number: text for number, (_, text) in enumerate(batch) if text is not None}
    findings = dict(zip(present, _findings(classifier, list(present.values())), strict=True))
    nothing = dict.fromkeys(added_names(classifier))
    rows = []
    for number, (row, values) in enumerate(zip(batch, own, strict=True)):
        merged = Record({**values, **findings.get(number, nothing)})
        merged.place = row.record.place
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
