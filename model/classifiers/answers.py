"""What a classifier says about texts: as arrays, as rows of named values, as a table."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from .head import Head

NEUTRAL = "neutral"  # the label of a text that takes no side; if asked for, of an unsure one, too
DIGITS = 7  # significant ones


class Predictions(NamedTuple):
    """The results for N texts, as arrays."""

    choices: "np.ndarray"  # int64 [N], indices into the classes; multi-label [N, C], 0 or 1
    probabilities: "np.ndarray"  # float64 [N, C]
    neuron: "np.ndarray"  # float32 [N], the value of the unit that the classifier relies on most
    stars: "np.ndarray | None"  # float64 [N], expected, if the classifier predicts stars
    bits_per_character: "np.ndarray"  # float64 [N], of the encoded text; NaN without bytes
    unsure: "np.ndarray | None"  # bool [N], for two classes: whether between the thresholds
    unfamiliar: "np.ndarray"
    """Whether a text is too short, or unlike what the model was trained on: bool [N].

    If the classifier measures only the length, object [N]: True if too short, else None.
    """
    neutral: "np.ndarray | None" = None
    """The probability that a text takes no side, float64 [N], if the classifier predicts it.

    The probabilities of the two classes assume that it takes a side.
    """

    @property
    def three_probabilities(self) -> "np.ndarray | None":
        """Probabilities of the negative class, neutral and the positive class, float64 [N, 3].

        None unless the classifier predicts neutral.
        """
        return None if self.neutral is None else three_answers(self.probabilities, self.neutral)

    @property
    def is_neutral(self) -> "np.ndarray | None":
        """Whether neutral is the likeliest of the three answers, bool [N], if there are three."""
        three = self.three_probabilities
        return None if three is None else three.argmax(1) == 1


def three_answers(sides: "np.ndarray", neutral: "np.ndarray") -> "np.ndarray":
    """Return the probabilities of the negative class, neutral and the positive class, [N, 3].

    sides: [N, 2], of the two classes if the text takes a side; neutral: [N], that it takes none.
    """
    import numpy as np

    negative, positive = sides.T * (1 - neutral)
    return np.column_stack([negative, neutral, positive])


class Answer(dict[str, Any]):
    """The results for one text by name, as `classify` writes them; None for a missing text.

    A notebook shows it as a table.
    """

    def to_frame(self) -> Any:
        return Answers([self]).to_frame()

    def _repr_html_(self) -> str:
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
        import pandas

        return pandas.DataFrame(list(self), index=self._index, columns=self._columns)

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


def added_names(fitted: "Head", *, neuron: bool = False) -> list[str]:
    """Return the names of the results for a text.

    For two classes: label; probability, of the positive class; sentiment, from -1 to 1, high is
    positive; unsure, whether the probability lies between the classifier's two thresholds. For more
    classes: label; probability, of the label; probability_CLASS for each. If a text may have
    several labels: labels, a list; probability_CLASS for each. If the classifier predicts them:
    neutral, the probability that the text takes no side; stars, the expected number. If asked for:
    neuron, the value of the unit that the classifier relies on most. Always: bits_per_character,
    how well the model predicts the text; unfamiliar, whether it is too short or unlike what the
    model was trained on, None if that is not known.
    """
    each = [] if fitted.is_binary else [f"probability_{name}" for name in fitted.classes]
    first = ["labels"] if fitted.several_labels else ["label", "probability"]
    third = [NEUTRAL] if fitted.has_neutral else []
    binary = ["sentiment", "unsure"] if fitted.is_binary else []
    stars = ["stars"] if fitted.has_stars else []
    unit = ["neuron"] if neuron else []
    return [*first, *third, *binary, *stars, *unit, *each, "bits_per_character", "unfamiliar"]


def answers_of(
    fitted: "Head", predicted: Predictions, names: Sequence[str], *, neutral: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the results for each text by name.

    names: which results. neutral: whether an unsure text is labelled `NEUTRAL`, too.
    """
    is_neutral = predicted.is_neutral
    for row in range(len(predicted.choices)):
        values = _values(fitted, predicted, row)
        if (is_neutral is not None and is_neutral[row]) or (neutral and values["unsure"]):
            values["label"] = NEUTRAL
        yield {name: values[name] for name in names}


def _values(fitted: "Head", predicted: Predictions, row: int) -> dict[str, Any]:
    """Return the results for a text, by name; None for those that do not apply."""
    choice, bits = predicted.choices[row], float(predicted.bits_per_character[row])
    probabilities, unfamiliar = predicted.probabilities[row], predicted.unfamiliar[row]
    values: dict[str, Any] = {
        "bits_per_character": None if math.isnan(bits) else _rounded(bits),
        "unfamiliar": None if unfamiliar is None else bool(unfamiliar),
    }
    for name in ("neutral", "unsure", "stars", "neuron"):
        results = getattr(predicted, name)
        values[name] = None if results is None else _rounded(results[row].item())
    for name, probability in zip(fitted.classes, probabilities, strict=True):
        values[f"probability_{name}"] = _rounded(probability)
    if fitted.several_labels:
        values["labels"] = [n for n, c in zip(fitted.classes, choice, strict=True) if c]
    else:
        values["label"] = fitted.classes[choice]
        values["probability"] = _rounded(probabilities[1 if fitted.is_binary else choice])
    if fitted.is_binary:
        values["sentiment"] = _rounded(2 * probabilities[1].item() - 1)
    return values


def _rounded(value: Any) -> Any:
    """Round a float to the digits of fp32; return anything else unchanged."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
