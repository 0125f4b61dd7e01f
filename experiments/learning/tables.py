"""Make the tables of README.md."""

from typing import Any

from experiments.intervals import Difference, compare_draws, unpacked_answers
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
    gains, before, words, bags = {}, {}, {}, []
    for name in SOURCES:
        own, bag = read_result("learning", f"{model}/{name}"), _measured(f"bag/{name}")
        before[name], row = own["before"]["test_accuracy"], own["sizes"]["300"]
        gain = _difference(row, own["before"])
        gains[name], words[name] = 100 * gain.value, gain.word
        bags += [_difference(row, bag["sizes"]["300"]).word] if bag else []
    tweets, first = gains.pop("tweets"), before.pop("tweets")
    lowest, highest = min(before.values()), max(before.values())
    return (
        f"With 300 rows, tweets are {words.pop('tweets')} with what they were before "
        f"({tweets:+.1f} points; three answers, {100 * first:.0f} % right before). Reviews, of "
        f"which {100 * lowest:.0f} to {100 * highest:.0f} % are right before, gain "
        f"{min(gains.values()):.1f} to {max(gains.values()):.1f}, ahead on "
        f"{[*words.values()].count('ahead')} of {len(words)} kinds. A bag of words that learns "
        f"from the same rows is behind on {bags.count('ahead')} of {len(bags)} kinds of texts."
    )


def _measured(name: str) -> Any:
    try:
        return read_result("learning", name)
    except NotMeasured:
        return None


def _compared(ours: Any, theirs: Any) -> str:
    """Return their accuracy, and the interval of what we have right more than they."""
    return f"{percent(theirs['test_accuracy'])} ({span(_difference(ours, theirs).interval)})"


def _difference(ours: Any, theirs: Any) -> Difference:
    """Return how many more texts are right, over texts and draws."""
    own, others = (
        [unpacked_answers(each, TESTED) for each in result["right"]] for result in (ours, theirs)
    )
    return compare_draws(own, others)
