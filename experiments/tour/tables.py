"""Make the tables of README.md, and of the first page what a new user waits for."""

from statistics import median
from typing import Any

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


def first_answer() -> str:
    """Return the steps from nothing to an answer, with their seconds."""
    result = read_result("tour", "first_answer")
    steps = {
        "install": result["install"],
        "first answer": result["first"],
        f"each later one, median of {len(result['later'])}": later(result),
    }
    cells = [
        [name, f"{step['seconds']:.1f}", f"{step['processor_seconds']:.1f}"]
        for name, step in steps.items()
    ]
    table = markdown(["step", "seconds", "processor seconds"], cells)
    size = f"The environment has {megabytes(result)}."
    return f"{table}\n\n{size} On {machine(result)}. {origins({'first_answer.json': result})}"


def in_a_sentence() -> str:
    """Return the same for the first page."""
    return sentence(read_result("tour", "first_answer"))


def sentence(result: dict[str, Any]) -> str:
    """Tell in a sentence what a new user waits for; the time of a download is not in it."""
    return (
        f"The environment has {megabytes(result)}. Apart from the download, installing took "
        f"{result['install']['processor_seconds']:.0f} seconds of processor time; "
        f"the first answer {result['first']['seconds']:.0f} seconds, since it compiles the "
        f"recurrence once; later ones {later(result)['seconds']:.0f} (on {machine(result)})."
    )


def later(result: dict[str, Any]) -> dict[str, float]:
    """Return the median seconds of the answers after the first."""
    answers = result["later"]
    return {key: median(answer[key] for answer in answers) for key in answers[0]}


def megabytes(result: dict[str, Any]) -> str:
    """Return the size of the environment."""
    return f"{result['megabytes']:,.0f} megabytes"


def machine(result: dict[str, Any]) -> str:
    """Return how many cores of which processor it was measured on."""
    hardware = result["origin"]["hardware"]
    return f"{hardware['cores']} cores of {hardware['processor']}"
