"""Make the tables of README.md."""

from typing import Any

from experiments.learning.run import SOURCES
from experiments.results import read_result
from experiments.tables import markdown, origins, percent, span

KINDS = {
    "restaurants": "restaurants (Yelp)",
    "hotels": "hotels (TripAdvisor)",
    "fast_food": "fast food (Google)",
    "book": "one book (Goodreads)",
    "tweets": "tweets (SemEval), three answers",
}
METHODS = ("learned", "bag", "minilm")


def _results(model: str) -> dict[str, Any]:
    return {name: read_result("learning", f"{model}/{name}") for name in SOURCES}


def curve(model: str) -> str:
    """Return the accuracy by the number of rows, for a head and for baselines."""
    results = _results(model)
    rows = []
    for name, result in results.items():
        for place, (size, row) in enumerate(result["sizes"].items()):
            first = place == 0
            rows.append(
                [
                    KINDS[name] if first else "",
                    percent(result["before"]["test_accuracy"]) if first else "",
                    f"{int(size):,}",
                    *(percent(row["methods"][each]["test_accuracy"]) for each in METHODS),
                    *(
                        span(row[each]["difference_interval"])
                        for each in ("gain", "over_bag", "over_minilm")
                    ),
                    f"{row['better']:.0%}",
                ]
            )
    head = ["texts", "before", "rows", "learned", "bag", "MiniLM"]
    intervals = ["gain over before", "over the bag", "over MiniLM"]
    table = markdown([*head, *intervals, "written"], rows)
    losses = (
        f"{KINDS[name]} {result['before']['log_loss']:.2f} to "
        f"{list(result['sizes'].values())[-1]['log_loss']:.2f}"
        for name, result in results.items()
    )
    weights = {result["model_digest"][:12] for result in results.values()}
    return (
        f"{table}\n\nLog loss, before and after the most rows: {'; '.join(losses)}. Weights "
        f"`{', '.join(sorted(weights))}`. {origins(results)}"
    )


def largest(model: str) -> str:
    """Return the answer of the study in a sentence."""
    rows = [result["sizes"]["300"] for result in _results(model).values()]
    gains = sorted(row["gain"]["difference"] for row in rows)
    ahead = sum(row["over_bag"]["difference_interval"][0] > 0 for row in rows)
    return (
        f"With 300 rows, {percent(gains[0])} to {percent(gains[-1])} points more right answers; "
        f"ahead of a bag of words that learns from the same rows on {ahead} of {len(rows)} kinds."
    )
