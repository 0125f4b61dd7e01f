"""Unit traces that know what is positive, and what the model's classifier answers for each text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.interface import TextModel
from ..engine.kinds import StateName
from ..engine.pieces import in_pieces
from ..errors import InputError
from ..head.answers import NEUTRAL, NO_ANSWER, Predictions, words_of
from ..head.head import Head, ranked_units
from ..head.head_files import find_classifier, own_classifier
from ..head.sentiment_classifier import SentimentClassifier
from ..head.separation import CHANCE, load_areas
from ..reading.no_answer import reason_of_no_answer
from ..text.glyphs import visible
from .unit_traces import UnitTraces, poles_of, read_texts

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
    show_progress: bool = True,
) -> UnitTraces:
    """Return the values of units after every character of some texts.

    units: default: the sentiment unit, the one that the classifier relies on most. top: number of
    further units. classifier: as for `find_classifier`. Raises InputError if neither a unit nor a
    classifier was named and there is none to choose one.
    """
    fitted = _classifier_of(loaded, layer, classifier, is_needed=not (units or top))
    kind = None if fitted is None else fitted.kind
    loaded = in_pieces(loaded, kind.poolings if kind and kind.state == state else ())
    areas, limits, ranking = None, None, list[int]()
    if fitted is not None:
        folder = find_classifier(loaded, classifier)
        areas, limits = load_areas(folder, loaded.architecture.hidden_size)
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
    """Return the classifier's answer for each text in words: the label, its probability."""
    predicted = SentimentClassifier(loaded, fitted).predict_all(texts)
    answers = [
        _verdict(fitted, predicted, row, word)
        for row, word in enumerate(words_of(fitted, predicted))
    ]
    return [
        f"classifier: {NO_ANSWER}: {reason}" if (reason := reason_of_no_answer(text)) else words
        for text, words in zip(texts, answers, strict=True)
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


def _classifier_of(
    loaded: TextModel, layer: int, classifier: str | Path | None, *, is_needed: bool
) -> Head | None:
    try:
        return own_classifier(loaded, layer, classifier)
    except InputError:
        if classifier is None and not is_needed:
            return None
        raise


def orientation_of(fitted: Head, areas: np.ndarray | None) -> dict[str, Any]:
    """Return the fields of UnitTraces that say what is positive: poles and polarities."""
    polarities: dict[int, int] = {}
    if areas is not None and fitted.is_binary:
        gaps = areas - CHANCE
        least = _MIN_AUC - CHANCE
        polarities = {n: 1 if gap > 0 else -1 for n, gap in enumerate(gaps) if abs(gap) >= least}
    return {"poles": poles_of(fitted), "polarities": {**polarities, fitted.neuron: fitted.polarity}}
