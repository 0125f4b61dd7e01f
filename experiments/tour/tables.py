"""Make the tables of README.md."""

from statistics import median

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
        [f"unit {neuron['index']} alone (+)", accuracy(neuron)],
        *([title, accuracy(result["baselines"][name])] for name, title in BASELINES.items()),
    ]
    bits = result["model"]["provenance"]["best_valid_bits_per_character"]
    return (
        f"{markdown(['test accuracy, per cent', ''], rows)}\n\nAt {bits:.3f} bits per character on "
        f"the valid split. {origins({'transfer': result})}"
    )


def first_answer() -> str:
    """Return how long it takes to install the package and to get an answer."""
    result = read_result("tour", "first_answer")
    keys = ("seconds", "processor_seconds")
    later = {key: median(answer[key] for answer in result["later"]) for key in keys}
    steps = {
        "install": result["install"],
        "first answer": result["first"],
        f"each later answer, median of {len(result['later'])}": later,
    }
    rows = [[title, *(f"{times[key]:.1f}" for key in keys)] for title, times in steps.items()]
    hardware = result["origin"]["hardware"]
    return (
        f"{markdown(['step', 'seconds', 'processor seconds'], rows)}\n\nThe environment takes "
        f"{result['megabytes']:,.0f} megabytes. On {hardware['cores']} cores of "
        f"{hardware['processor']}. {origins({'first_answer': result})}"
    )
