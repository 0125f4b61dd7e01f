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
                    percent(
                        row["test_accuracy"],
                        row["mean_interval"] if len(row["right"]) > 2 else (),
                    ),
                    *((each and _compared(row, each)) or "not measured" for each in compared),
                    f"{100 * row['better']:.0f} %",
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
    gains, before, ahead, bags = {}, {}, 0, 0
    for name in SOURCES:
        own, bag = read_result("learning", f"{model}/{name}"), _measured(f"bag/{name}")
        before[name], row = own["before"]["test_accuracy"], own["sizes"]["300"]
        gains[name] = 100 * (row["test_accuracy"] - before[name])
        bags += bag is not None
        ahead += bag is not None and _difference(row, bag["sizes"]["300"])[1] > 0
    tweets, first = gains.pop("tweets"), before.pop("tweets")
    lowest, highest = min(before.values()), max(before.values())
    moved = f"{'gain' if tweets > 0 else 'lose'} {abs(tweets):.1f}"
    return (
        f"With 300 rows, tweets {moved} points (three answers, {100 * first:.0f} % right "
        f"before). Reviews, of which {100 * lowest:.0f} to {100 * highest:.0f} % are right before, "
        f"gain {min(gains.values()):.1f} to {max(gains.values()):.1f}. A bag of words that learns "
        f"from the same rows is behind on {ahead} of {bags} kinds of texts."
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
