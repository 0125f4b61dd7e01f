"""Make the tables of README.md."""

from experiments.results import read_result
from experiments.tables import accuracy, markdown, origins

BASELINES = {
    "tfidf": "TF-IDF, words and pairs",
    "untrained": "untrained mLSTM",
    "majority": "majority class",
}


def transfer() -> str:
    """Return the accuracies of the tour's model and of the baselines."""
    result = read_result("tour", "transfer")
    neuron = result["neuron"]
    rows = [
        [f"all units ({result['nonzero']} of them, C {result['c']:g})", accuracy(result)],
        [
            f"unit {neuron['index']} alone ({'+' if neuron['polarity'] > 0 else '-'})",
            accuracy(neuron),
        ],
        *([title, accuracy(result["baselines"][name])] for name, title in BASELINES.items()),
    ]
    bits = result["model"]["provenance"]["best_valid_bits_per_character"]
    return (
        f"{markdown(['test accuracy, per cent', ''], rows)}\n\nAt {bits:.3f} bits per character on "
        f"the valid split. {origins({'transfer': result})}"
    )
