"""The values of chosen units under every character of a text.

A character has the values after the token that covers its last byte. White space at the beginning
of a subword token has the values before the token: they belong to the previous word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.engine import as_model
from ..engine.interface import TextModel
from ..engine.kinds import StateName
from ..errors import InputError, is_whole
from ..files.shipped import model_name
from ..files.tensors import check_finite
from ..head.answers import NEUTRAL, NO_ANSWER, Predictions, words_of
from ..head.head import Head, ranked_units
from ..head.head_files import (
    CHANCE,
    covers,
    find_classifier,
    load_areas,
    load_classifier,
    own_classifier,
)
from ..head.sentiment_classifier import SentimentClassifier
from ..reading.no_answer import reason_of_no_answer
from ..reading.progress import ProgressBar
from ..text.glyphs import visible
from ..text.markup import without_tags
from ..text.profiles import TextProfile, checked_texts
from ..text.tokenizer import Tokenizer

_ONE_STATE = ("gru", "transformer")  # cells whose only state is the hidden one


@dataclass(frozen=True)
class UnitTrace:
    """One text and the values of the units after each of its characters (code points).

    >>> trace = read_texts("amazon_1024", ["so good"], units=[388]).traces[0]
    >>> trace.text, trace.values.shape
    ('so good', (7, 1))
    """

    text: str
    """C characters, as shown."""
    offsets: np.ndarray
    """int64 [C + 1]: each one's first byte in the text as read, without frame."""
    values: np.ndarray
    """float32 [C, U], after the character's last byte."""
    before: np.ndarray
    """float32 [U], after the frame that precedes the first character."""
    verdict: str = ""
    """The classifier's answer for the text, in words; `heatmap` adds it."""


@dataclass(frozen=True)
class UnitTraces:
    """Several texts, the units that were traced, and the model that read them.

    >>> traces = read_texts("amazon_1024", ["so good", "so bad"], units=[388, 5])
    >>> len(traces.traces), traces.units, traces.layer
    (2, [388, 5], 0)
    """

    traces: list[UnitTrace]
    """One for each text."""
    units: list[int]
    """U units, in the order of the columns of `UnitTrace.values`."""
    state: StateName
    """The half of the state that the values are of."""
    layer: int
    """Counted from 0."""
    model: dict[str, Any] = field(default_factory=dict)
    """What the model is: its name, digest, architecture, text profile and provenance."""
    poles: tuple[str, str] | None = None
    """The names of the classes: the negative, the positive one."""
    polarities: Mapping[int, int] = field(default_factory=dict)
    """By unit, where it is known: 1 if its high values mean positive, -1 if its low ones do."""
    limits: Mapping[int, float] = field(default_factory=dict)
    """By unit, where it is known: the value at which its scale ends."""
    turned: Sequence[int] = ()
    """Units whose values have the opposite of the model's sign."""

    def legend(self, index: int) -> tuple[str, str]:
        """Return the labels of a unit's scale: its name, and the value and meaning of each end."""
        limit, unit = self.ranges()[index], self.units[index]
        low, high = self.meanings()[index] or ("", "")
        sign = ", sign turned" if unit in self.turned else ""
        left = f"unit {unit}, {self.state}{sign}: {visible(low)}"
        return f"{left.rstrip()} {-limit:.3g}", f"{limit:.3g} {visible(high)}".rstrip()

    def signs(self) -> list[int]:
        return [self.polarities.get(unit, 0) for unit in self.units]

    def meanings(self) -> list[tuple[str, str] | None]:
        """Return for each unit what low and high values mean; None where that is not known."""
        if self.poles is None:
            return [None] * len(self.units)
        by_sign = {1: self.poles, -1: (self.poles[1], self.poles[0]), 0: None}
        return [by_sign[sign] for sign in self.signs()]

    def oriented(self) -> "UnitTraces":
        """Return the traces as shown: each unit that is known is high for positive texts."""
        signs = np.array([-1.0 if sign < 0 else 1.0 for sign in self.signs()], np.float32)
        if (signs > 0).all():
            return self
        traces = [
            replace(trace, values=trace.values * signs, before=trace.before * signs)
            for trace in self.traces
        ]
        return replace(
            self,
            traces=traces,
            polarities={unit: abs(sign) for unit, sign in self.polarities.items()},
            turned=[unit for unit, sign in zip(self.units, signs, strict=True) if sign < 0],
        )

    def ranges(self) -> list[float]:
        """Return the value at which each unit's scale ends, where colours are strongest.

        It is the unit's limit on labelled texts; where that is not known, the largest absolute
        value over these texts; 1 if that is 0.
        """
        pairs = zip(self.units, self.largest(), strict=True)
        return [self.limits.get(unit, 0.0) or value for unit, value in pairs]

    def largest(self) -> list[float]:
        """Return each unit's largest absolute value over all texts; 1 if it is always 0."""
        values = np.concatenate([trace.values for trace in self.traces])
        return [float(value) or 1.0 for value in np.abs(values).max(axis=0)]


def read_texts(
    loaded: str | Path | TextModel,
    texts: Iterable[str],
    units: Sequence[int],
    *,
    top: int = 0,
    ranking: Sequence[int] = (),
    state: StateName = "cell",
    layer: int = -1,
    show_progress: bool = False,
) -> UnitTraces:
    """Return the values of units under every character of some texts.

    loaded: a shipped model's name, the folder of a model or a run, or a model. units: of one layer,
    from 0. top: number of further units: those of `ranking`, in order, then those that vary most.
    state: "cell" or "hidden". layer: -1 is the last. show_progress: on stderr.
    The values of the bytes that the text profile adds around a text are left out. Raises InputError
    for a text that is empty after cleaning, or a unit or layer that the model lacks.

        traces = read_texts("amazon_1024", ["so good"], units=[388])
        traces.traces[0].values  # [7, 1]: a row for each character
    """
    texts = checked_texts(texts)
    if not texts:
        raise InputError("no texts to read")
    loaded = as_model(loaded)
    traced, missing = _first_units(units, top, ranking)
    profile, architecture = loaded.profile, loaded.architecture
    for unit in [0, *traced]:
        architecture.check_unit(unit, layer)
    shown = [_shown(profile, text, number) for number, text in enumerate(texts, start=1)]
    sequences = [loaded.encode(text) for text in texts]
    size = sum(map(len, sequences)) * (2 if missing else 1)
    with ProgressBar("read", size, shown=show_progress) as progress:
        layer %= architecture.layers
        where: dict[str, Any] = {"state": state, "layers": [layer], "advance": progress.advance}
        if missing:
            varying = _widest_ranging_units(loaded, sequences, len(traced) + missing, **where)
            traced += [unit for unit in varying if unit not in traced][:missing]
        states = loaded.read(sequences, (), units=traced, **where).unit_states
        assert states is not None
        for each in states:
            check_finite(loaded.folder, {"a unit": each})
    values = map(partial(_values_per_byte, loaded.tokenizer), sequences, states)
    traces = [_unit_trace(profile, *each) for each in zip(texts, shown, values, strict=True)]
    numbers = [int(unit) for unit in traced]  # NumPy's numbers are not JSON
    if architecture.cell in _ONE_STATE:
        state = "hidden"
    origin = {  # without a path of this machine
        "name": model_name(loaded.folder),
        "digest": loaded.digest(),
        "architecture": architecture.architecture(),
        "text_profile": profile.name,
        "provenance": dict(loaded.provenance),
    }
    return UnitTraces(traces, numbers, state, layer, origin)


def _first_units(units: Sequence[int], top: int, ranking: Sequence[int]) -> tuple[list[int], int]:
    """Return the units that are known before any text is read, and how many are still to find."""
    if not is_whole(top) or top < 0:
        raise InputError(f"top is {top}; it must be 0 or above")
    if not isinstance(units, Iterable):
        raise InputError(f"units is {units!r}; give a list of units, such as [0, 7]")
    first = list(dict.fromkeys(units))
    if not first and not top:
        raise InputError("no units to trace; name one")
    ranked = [unit for unit in dict.fromkeys(ranking) if unit not in first][:top]
    return first + ranked, top - len(ranked)


def _unit_trace(profile: TextProfile, text: str, shown: str, values: np.ndarray) -> UnitTrace:
    frame = len(profile.prefix.encode())
    sizes = [len(character.encode()) for character in _as_read(profile, text)]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    before = values[frame - 1] if frame else np.zeros_like(values[0])
    return UnitTrace(shown, offsets, values[frame + offsets[1:] - 1], before)


def _as_read(profile: TextProfile, text: str) -> str:
    return profile.clean(text).encode("utf-8", errors="replace").decode("utf-8")


def _shown(profile: TextProfile, text: str, number: int) -> str:
    """Return the text as read, with the white space of the original where they align."""
    read = _as_read(profile, text)
    if not read:
        raise InputError(f"text {number} is empty once the profile {profile.name} has cleaned it")
    original = text.encode("utf-8", errors="replace").decode("utf-8").strip()
    pairs = zip(original, read, strict=False)
    aligned = len(original) == len(read) and all(
        one == other or (one.isspace() and other == " ") for one, other in pairs
    )
    return original if aligned else read


def _poles_of(classifier: Head) -> tuple[str, str]:
    first, last = classifier.classes[0], f"label {classifier.classes[-1]}"
    return (f"label {first}" if classifier.is_binary else "other labels", last)


def _widest_ranging_units(
    model: TextModel, sequences: Sequence[np.ndarray], count: int, **where: Any
) -> list[int]:
    """Return the `count` units whose largest and smallest value in the texts are furthest apart."""
    sequences = [tokens for tokens in sequences if len(tokens)]
    reading = model.read(sequences, ("max", "min"), **where)
    highest, lowest = np.split(reading.features(("max", "min")), 2, axis=1)
    widths = highest.max(axis=0) - lowest.min(axis=0)
    return np.argsort(-widths, kind="stable")[:count].tolist()


def _values_per_byte(tokenizer: Tokenizer, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values of each byte, [bytes, U], from those after each of the tokens [n, U].

    A byte gets the values after its token, but white space that begins a token those before it.
    """
    steps = list[int]()  # after how many of the tokens the values of each byte come
    for step, token in enumerate(tokens.tolist()):
        spelling = tokenizer.spellings[token]
        blank = len(spelling) - len(spelling.lstrip()) if spelling.strip() else 0
        steps += [step] * blank + [step + 1] * (len(spelling) - blank)
    zero = np.zeros_like(values[:1])  # the state before the text
    return np.concatenate([zero, values])[np.array(steps, np.int64)]


_MIN_AUC = 0.55  # of a unit or of its negative; below, neither end counts as positive


def sentiment_traces(
    loaded: TextModel,
    texts: Sequence[str],
    units: Sequence[int] = (),
    *,
    top: int = 0,
    state: StateName = "cell",
    layer: int = -1,
    classifier: str | Path | None = None,
    show_progress: bool = False,
) -> UnitTraces:
    """Return the values of units after every character of some texts.

    units: default: the sentiment unit, the one that the classifier relies on most. top: number of
    further units. classifier: as for `find_classifier`. HTML tags are left out, as by the
    classifier. Raises InputError if neither a unit nor a classifier was named and there is none to
    choose one, and for a classifier of another model.
    """
    texts = list(map(without_tags, checked_texts(texts)))
    fitted: Head | None = None
    if classifier is not None or not (units or top):
        fitted = own_classifier(loaded, layer, classifier)
    elif covers(loaded, layer):
        fitted = load_classifier(loaded)
    areas, limits, ranking = None, None, list[int]()
    if fitted is not None:
        folder = find_classifier(loaded, classifier)
        areas, limits = load_areas(folder, loaded.architecture.hidden_size) or (None, None)
        limits = limits if state == "cell" else None
        # After the sentiment unit, those that best separate the classes alone, or, if their AUC is
        # not recorded, those that influence the classifier most.
        influence = fitted.influence if areas is None else areas[None] - CHANCE
        ranking = [fitted.neuron, *ranked_units(influence)]
    traces = read_texts(
        loaded,
        texts,
        units or ranking[:1],
        top=top,
        ranking=ranking,
        state=state,
        layer=layer,
        show_progress=show_progress,
    )
    if fitted is None:
        return traces
    pairs = zip(traces.traces, _verdicts_of(loaded, fitted, texts), strict=True)
    return replace(
        traces,
        traces=[replace(each, verdict=words) for each, words in pairs],
        limits={} if limits is None else dict(enumerate(limits.tolist())),
        **orientation_of(fitted, areas),
    )


def _verdicts_of(loaded: TextModel, fitted: Head, texts: Sequence[str]) -> list[str]:
    predicted = SentimentClassifier(loaded, fitted).predict_all(texts)
    return [
        f"classifier: {NO_ANSWER}: {reason}"
        if (reason := reason_of_no_answer(texts[row]))
        else _verdict(fitted, predicted, row, word)
        for row, word in enumerate(words_of(fitted, predicted))
    ]


def _verdict(fitted: Head, predicted: Predictions, row: int, word: str) -> str:
    values = dict(zip(fitted.classes, predicted.probabilities[row], strict=True))
    if word == NEUTRAL and predicted.neutral is not None:
        values = {word: predicted.neutral[row]}
    elif fitted.is_binary:
        values = {fitted.classes[1]: values[fitted.classes[1]]}
    else:
        choice = predicted.choices[row]
        mask = choice if fitted.several_labels else np.eye(len(values), dtype=int)[choice]
        values = {name: values[name] for name, is_one in zip(values, mask, strict=True) if is_one}
    listing = ", ".join(f"probability of {name} {value:.3f}" for name, value in values.items())
    return visible(f"classifier: {word} ({listing or 'all unlikely'})")


def orientation_of(fitted: Head, areas: np.ndarray | None) -> dict[str, Any]:
    """Return the fields of UnitTraces that say what is positive: poles and polarities."""
    polarities: dict[int, int] = {}
    if areas is not None and fitted.is_binary:
        gaps = areas - CHANCE
        least = _MIN_AUC - CHANCE
        polarities = {n: 1 if gap > 0 else -1 for n, gap in enumerate(gaps) if abs(gap) >= least}
    return {
        "poles": _poles_of(fitted),
        "polarities": {**polarities, fitted.neuron: fitted.polarity},
    }
