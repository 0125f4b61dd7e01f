"""What a classifier says about texts: as arrays, as rows of named values, as a table."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, imported, suggestion

if TYPE_CHECKING:
    import numpy as np

    from .head import Head, HeadOutput

NEUTRAL = "neutral"  # the text takes no side
UNSURE = "unsure"  # the probability is near the threshold
UNFAMILIAR = "unfamiliar"  # the text is too short, or unlike what the model was trained on
NO_ANSWER = "no answer"  # there is no text, or a placeholder such as N/A
NO_LABEL = "no label"  # of a text that may have several
EVEN = 0.5  # the probability of an even split
DIGITS = 7  # significant ones


def word_of(
    side: str, *, is_neutral: bool = False, unsure: object = False, unfamiliar: object = False
) -> str:
    """Return the one answer for a text, the same word everywhere.

    side: the likeliest class, whatever else holds. The first that holds decides: unfamiliar,
    neutral, unsure, the side.
    """
    if unfamiliar:
        return UNFAMILIAR
    if is_neutral:
        return NEUTRAL
    return UNSURE if unsure else side


class Predictions(NamedTuple):
    """The results for N texts, as arrays."""

    choices: "np.ndarray"
    """Indices of the head's own classes, in which neutral is none, int64 [N]; [N, C], 0 or 1, if a
    text may have several."""
    probabilities: "np.ndarray"  # float64 [N, C], of the head's classes
    neuron: "np.ndarray"  # float32 [N], the value of the unit that the classifier relies on most
    stars: "np.ndarray | None"  # float64 [N], expected, if the classifier predicts stars
    bits_per_character: "np.ndarray | None"
    """Of the encoded text, float64 [N], NaN without bytes; None unless asked for."""
    unsure: "np.ndarray | None"  # bool [N], for two classes: whether between the thresholds
    unfamiliar: "np.ndarray"
    """Whether a text is too short, or unlike what the model was trained on: bool [N].

    If the classifier measures only the length, object [N]: True if too short, else None.
    """
    neutral: "np.ndarray | None" = None
    """The probability that a text takes no side, float64 [N], if the classifier predicts it.

    The probabilities of the two classes assume that it takes a side.
    """
    is_neutral: "np.ndarray | None" = None
    """Whether neutral is the likeliest of the three answers, bool [N], if there are three."""


def named_by(cell: str, names: Sequence[str]) -> str | None:
    """Return the answer that a cell of a table means; None if it is none of these.

    Case makes no difference, nor do blanks around it.
    """
    if cell in names:
        return cell
    plain = cell.strip().casefold()
    return next((name for name in names if name.casefold() == plain), None)


def unknown_answer(place: str, label: str, names: Sequence[str], hint: str = "") -> InputError:
    """Return the error for a label that is no answer. hint: how to fix it, unless it is a slip."""
    end = suggestion(label, names) or hint
    return InputError(f"{place}: label is {label!r}; the answers are {', '.join(names)}{end}")


def named_answers(head: "Head", *, sides: bool = False) -> tuple[str, ...]:
    """Return the names of the answers of a head that never abstains: neutral stands in between."""
    if not head.has_neutral or sides:
        return head.classes
    return (head.classes[0], NEUTRAL, head.classes[1])


def probability_of_each(head: "Head", output: "HeadOutput", *, sides: bool = False) -> "np.ndarray":
    """Return the probability of each answer of `named_answers`, float64 [N, answers].

    Another threshold than one half moves the log-odds of positive and negative next to neutral, so
    that it becomes their even split.
    """
    import numpy as np

    from .steps import LogOdds

    positive, odds = output.probabilities, LogOdds().map
    if output.neutral is None or sides:
        return np.column_stack([1 - positive, positive]) if head.is_binary else positive
    if head.threshold != EVEN:
        positive = 1 / (1 + np.exp(odds(np.array(head.threshold)) - odds(positive)))
    takes_side = 1 - output.neutral
    return np.column_stack([(1 - positive) * takes_side, output.neutral, positive * takes_side])


def likeliest(head: "Head", output: "HeadOutput", *, sides: bool = False) -> "np.ndarray":
    """Return the index of the likeliest answer, int64 [N]; of several labels 0 or 1 for each."""
    if output.neutral is None or sides:
        return head.choose(output.probabilities)
    return probability_of_each(head, output).argmax(1)


class Answer(dict[str, Any]):
    """The results for one text by name, as `classify` writes them.

    A notebook shows it as a table.
    """

    def to_frame(self) -> Any:
        return Answers([self]).to_frame()

    def _repr_html_(self) -> str | None:
        return Answers([self])._repr_html_()


class Answers(list[Answer]):
    """The results for texts, in their order. A notebook shows them as a table.

    index: the pandas index of the texts, if they had one. columns: the names of the results, which
    a table has even without texts.
    """

    def __init__(
        self,
        answers: Sequence[Answer] = (),
        index: Any = None,
        columns: Sequence[str] | None = None,
    ):
        super().__init__(answers)
        self._index, self._columns = index, columns

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: a row for each text, a column for each result."""
        pandas = imported("pandas", "tables of answers need")
        return pandas.DataFrame(list(self), index=self._index, columns=self._columns)

    def _repr_html_(self) -> str | None:
        try:
            return str(self.to_frame()._repr_html_())
        except InputError:  # without pandas, a notebook shows them as Python does
            return None


def added_names(
    fitted: "Head", *, neuron: bool = False, sides: bool = False, bits: bool = False
) -> list[str]:
    """Return the names of the results for a text.

    `classify --help` says what each is. Without an answer: see `results_of_no_answer`.
    """
    each = [] if fitted.is_binary else [f"probability_{name}" for name in fitted.classes]
    first = ["labels"] if fitted.several_labels else ["label", "probability"]
    third = [NEUTRAL] if fitted.has_neutral else []
    binary = ["sentiment", "unsure"] if fitted.is_binary else []
    stars = ["stars"] if fitted.has_stars else []
    unit = ["neuron"] if neuron else []
    cost = ["bits_per_character"] if bits else []
    last = ["unfamiliar", *(["sides"] if sides else [])]
    return [*first, *third, *binary, *stars, *unit, *each, *cost, *last]


def results_of_no_answer(names: Sequence[str]) -> dict[str, Any]:
    """Return the results for a text that is no answer: the label says so, all others are None."""
    return {name: NO_ANSWER if name == "label" else None for name in names}


def words_of(fitted: "Head", predicted: Predictions, *, sides: bool = False) -> list[str]:
    """Return the answer for each text in a word; several labels are joined by commas.

    sides: whether to name the likelier of two sides, whatever else holds.
    """
    words, is_neutral, unsure = [], predicted.is_neutral, predicted.unsure
    for row, choice in enumerate(predicted.choices):
        if fitted.several_labels:
            side = ", ".join(_labels(fitted, choice)) or NO_LABEL
        else:
            side = fitted.classes[choice]
        marks = {
            "is_neutral": is_neutral is not None and bool(is_neutral[row]),
            "unsure": unsure is not None and bool(unsure[row]),
            "unfamiliar": predicted.unfamiliar[row],
        }
        words.append(side if sides else word_of(side, **marks))
    return words


def _labels(fitted: "Head", chosen: "np.ndarray") -> list[str]:
    return [name for name, is_chosen in zip(fitted.classes, chosen, strict=True) if is_chosen]


def answers_of(
    fitted: "Head", predicted: Predictions, names: Sequence[str], *, sides: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the results for each text by name.

    names: which results. sides: as for `words_of`.
    """
    words = words_of(fitted, predicted, sides=sides)
    for row, word in enumerate(words):
        values = {**_values(fitted, predicted, row), "label": word, "sides": sides}
        yield {name: values[name] for name in names}


def _values(fitted: "Head", predicted: Predictions, row: int) -> dict[str, Any]:
    choice, probabilities = predicted.choices[row], predicted.probabilities[row]
    unfamiliar = predicted.unfamiliar[row]
    values: dict[str, Any] = {"unfamiliar": None if unfamiliar is None else bool(unfamiliar)}
    for name in ("neutral", "unsure", "stars", "neuron", "bits_per_character"):
        results = getattr(predicted, name)
        value = None if results is None else results[row].item()
        values[name] = None if value is None or math.isnan(value) else _rounded(value)
    for name, probability in zip(fitted.classes, probabilities, strict=True):
        values[f"probability_{name}"] = _rounded(probability)
    if fitted.several_labels:
        values["labels"] = _labels(fitted, choice)
    else:
        values["probability"] = _rounded(probabilities[1 if fitted.is_binary else choice])
    if fitted.is_binary:
        values["sentiment"] = _rounded(2 * probabilities[1].item() - 1)
    return values


def _rounded(value: Any) -> Any:
    """Round a float to the digits of fp32; return anything else unchanged."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
