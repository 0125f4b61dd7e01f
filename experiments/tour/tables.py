"""Make the table of README.md."""

from experiments.tables import accuracy, markdown, origins, read_result

BASELINES = {
    "tfidf": "TF-IDF, words and pairs",
    "untrained": "untrained mLSTM",
    "majority": "majority class",
}


def transfer() -> str:
    """Return the final table of the tour: test accuracies on the embedded reviews."""
    result = read_result("tour", "transfer")
    neuron, bits = result["neuron"], result["model"]["provenance"]["best_valid_bits_per_character"]
    rows = {
        f"all units ({result['nonzero']} of them, C {result['c']:g})": result,
        f"unit {neuron['index']} alone ({'+' if neuron['polarity'] > 0 else '-'})": neuron,
        **{words: result["baselines"][name] for name, words in BASELINES.items()},
    }
    cells = [[name, accuracy(row)] for name, row in rows.items()]
    table = markdown(["test accuracy, per cent", ""], cells)
    said = f"At {bits:.3f} bits per character on the valid split."
    return f"{table}\n\n{said} {origins({'transfer.json': result})}"
