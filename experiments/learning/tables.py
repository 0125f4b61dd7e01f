"""Make the tables of README.md."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from experiments.intervals import unpacked_answers
from experiments.learning.run import SOURCES, TESTED
from experiments.results import NotMeasured, read_result
from experiments.tables import markdown, origins, percent, span

KINDS = {
    "restaurants": "restaurants (Yelp)",
    "hotels": "hotels (TripAdvisor)",
    "fast_food": "fast food (Google)",
    "book": "one book (Goodreads)",
    "tweets": "tweets (SemEval), three answers",
}
BASELINES = ("bag", "minilm")
NORMAL = 1.96  # standard errors to either end of a 95 % interval


def curve(model: str) -> str:
    """Return the accuracy by the number of rows, for a head that learns and for baselines."""
    rows = []
    results = {f"{model}/{name}": read_result("learning", f"{model}/{name}") for name in SOURCES}
    for name in SOURCES:
        own = results[f"{model}/{name}"]
        others = {each: _measured(f"{each}/{name}") for each in BASELINES}
        results |= {f"{each}/{name}": result for each, result in others.items() if result}
        for place, (size, row) in enumerate(own["sizes"].items()):
            compared = [own["before"], *(o and o["sizes"][size] for o in others.values())]
            rows.append(
                [
                    KINDS[name] if place == 0 else "",
                    f"{int(size):,}",
                    percent(row["test_accuracy"], row["mean_interval"]),
                    *((each and _compared(row, each)) or "not measured" for each in compared),
                    f"{row['better']:.0%}",
                ]
            )
    head = ["texts", "rows", "learned", "before", "bag", "MiniLM", "gain shown"]
    losses = (
        f"{KINDS[name]} {results[f'{model}/{name}']['before']['log_loss']:.2f} to "
        f"{list(results[f'{model}/{name}']['sizes'].values())[-1]['log_loss']:.2f}"
        for name in SOURCES
    )
    weights = results[f"{model}/tweets"]["method"]["model_digest"][:12]
    return (
        f"{markdown(head, rows)}\n\nLog loss before, and after the most rows: "
        f"{'; '.join(losses)}. Weights `{weights}`. {origins(results)}"
    )


def largest(model: str) -> str:
    """Return the answer of the study."""
    own = [read_result("learning", f"{model}/{name}") for name in SOURCES]
    gains = sorted(r["sizes"]["300"]["test_accuracy"] - r["before"]["test_accuracy"] for r in own)
    ahead = sum(
        _difference(result["sizes"]["300"], read_result("learning", f"bag/{name}")["sizes"]["300"])[
            1
        ]
        > 0
        for name, result in zip(SOURCES, own, strict=True)
    )
    return (
        f"With 300 rows, {100 * gains[0]:.1f} to {100 * gains[-1]:.1f} points. It is then ahead of "
        f"a bag of words that learns from the same rows on {ahead} of {len(own)} kinds of texts."
    )


def _measured(name: str) -> Any:
    try:
        return read_result("learning", name)
    except NotMeasured:
        return None


def _compared(ours: Any, theirs: Any) -> str:
    """Return their accuracy, and the interval of what we have right more than they."""
    _, low, high = _difference(ours, theirs)
    return f"{percent(theirs['test_accuracy'])} ({span([low, high])})"


def _difference(ours: Any, theirs: Any) -> tuple[float, float, float]:
    """Return how many more texts are right, mean over draws, with a 95 % interval over texts."""
    change = _mean(ours["right"]) - _mean(theirs["right"])
    mean, margin = float(change.mean()), NORMAL * float(change.std()) / len(change) ** 0.5
    return mean, mean - margin, mean + margin


def _mean(packed: Iterable[str]) -> np.ndarray:
    """Return in which part of the draws each text was right."""
    answers = [unpacked_answers(each, TESTED) for each in packed]
    return np.mean(answers, axis=0)
