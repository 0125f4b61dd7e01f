"""What a transfer has shown, in plain sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

FEW_CHARACTERS = 100e6  # below, none of our models has had a unit that stands out

Accuracy = Mapping[str, Any]


def percent(row: Accuracy, key: str = "test_accuracy") -> str:
    """Return a fraction of a row of results as in "76.8 %"."""
    return f"{100 * row[key]:.1f} %"


def is_above(row: Accuracy, *baselines: Accuracy) -> bool:
    """Return whether an accuracy's 95 % interval is above the accuracies of all baselines."""
    return bool(row["test_interval"][0] > max(row["test_accuracy"] for row in baselines))


def summarize(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the results of `run_transfer` mean, a sentence or two at a time."""
    baselines, provenance = results["baselines"], results["model"]["provenance"]
    untrained, tfidf = baselines["untrained"], baselines["tfidf"]
    if is_above(results, untrained, baselines["majority"]):
        yield (
            f"Learnt: training raised the accuracy of the features from {percent(untrained)} "
            f"(untrained) to {percent(results)}."
        )
    else:
        yield (
            f"This model does not know the label yet: {percent(results)}, an untrained one "
            f"{percent(untrained)}, the majority class {percent(baselines['majority'])}."
        )
    if tfidf["test_accuracy"] > results["test_accuracy"]:
        yield (
            f"TF-IDF is ahead ({percent(tfidf)}) where single words give the label away: it counts "
            "words, the model has to find them in the letters."
        )
    characters = provenance.get("characters", FEW_CHARACTERS)
    if characters < FEW_CHARACTERS and "began_from" not in provenance:
        yield (
            f"The model was trained on {characters / 1e6:,.1f} million characters. In our study of "
            "real reviews the mean state (--pooling mean) had most of its knowledge of sentiment "
            "after 2 million, and no single unit stood out at 54 million "
            "(experiments/neuron/curve.md); amazon_subword_1024 had a sentiment neuron after 870 "
            "million."
        )
