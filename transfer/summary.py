"""What a transfer has shown, in plain sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

FEW_CHARACTERS = 100e6  # below, none of our models has had a unit that stands out

Accuracy = Mapping[str, Any]


def percent(row: Accuracy) -> str:
    """Return the test accuracy of a row of results as in "76.8 %"."""
    return f"{100 * row['test_accuracy']:.1f} %"


def is_above(row: Accuracy, other: Accuracy) -> bool:
    """Return whether an accuracy's 95 % interval is above another accuracy."""
    return bool(row["test_interval"][0] > other["test_accuracy"])


def not_beaten(row: Accuracy, baselines: Mapping[str, Accuracy]) -> str:
    """Return which baseline an accuracy is not above, in words; nothing if it is above both."""
    names = {"untrained": "an untrained model", "majority": "the majority class"}
    return next((words for key, words in names.items() if not is_above(row, baselines[key])), "")


def summarize(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the results of `run_transfer` mean, a sentence or two at a time."""
    baselines, provenance = results["baselines"], results["model"]["provenance"]
    untrained, tfidf = baselines["untrained"], baselines["tfidf"]
    if rival := not_beaten(results, baselines):
        yield (
            f"No better than {rival}: {percent(results)}, an untrained model "
            f"{percent(untrained)}, the majority class {percent(baselines['majority'])}."
        )
    else:
        yield (
            f"Learnt: training raised the accuracy of the features from {percent(untrained)} "
            f"(untrained) to {percent(results)}."
        )
    low, high = tfidf["lost_interval"]
    word = "behind" if low > 0 else "ahead" if high < 0 else "level"
    yield (
        f"Next to TF-IDF ({percent(tfidf)}): {word}, {100 * (0 - tfidf['lost']):+.1f} points "
        f"({100 * (0 - high):+.1f} to {100 * (0 - low):+.1f}) on the same texts."
    )
    characters = provenance.get("characters", FEW_CHARACTERS)
    if characters < FEW_CHARACTERS and "began_from" not in provenance:
        yield (
            f"The model was trained on {characters / 1e6:,.1f} million characters. In our study of "
            "real reviews the mean state (--pooling mean) had most of its knowledge of sentiment "
            "after 2 million, and no single unit stood out at 54 million "
            "(experiments/neuron/curve.md); the shipped amazon_subword_1024 has a sentiment "
            "neuron, after 538 million."
        )
