"""Make the tables of README.md."""

from typing import Any

from data_utils.published_sets.registry import SETS
from experiments.tables import EXPERIMENTS, accuracy, markdown, origins, read_result
from experiments.tour.tables import BASELINES
from training.metrics import read_rows

METRICS = EXPERIMENTS / "main_job" / "results" / "metrics.jsonl"
MEASURED = ("sst", "mr")
SHOWN = (200, 400, 1000, 1600, 2400, 3000, 3600)  # steps


def learning() -> str:
    """Return bits per character on valid by the characters read, and on test."""
    cells = [
        [f"{row['characters'] / 1e6:.1f} M", f"{row['valid_bits_per_character']:.3f}"]
        for row in read_rows(METRICS)
        if row["step"] in SHOWN and "valid_bits_per_character" in row
    ]
    table = markdown(["characters read", "valid, bits per character"], cells)
    strip, review = (read_result("main_job", name) for name in ("test_bits", "test_bits_review"))
    return (
        f"{table}\n\nTest: {strip['bits_per_character']:.4f} bits per character, standard error "
        f"{strip['standard_error']:.4f}, with the state carried in {strip['cold_starts']} strips; "
        f"{review['bits_per_character']:.4f} +- {review['standard_error']:.4f} with every review "
        f"read from the zero state. {origins({'test_bits.json': strip})}"
    )


def transfer() -> str:
    """Return test accuracies of the features and of the baselines."""
    found = {name: read_result("main_job", name) for name in MEASURED}
    rows = [
        ["all units", *map(all_units, found.values())],
        ["top unit alone", *(top_unit(result["neuron"]) for result in found.values())],
    ]
    for key, words in BASELINES.items():
        rows.append([words, *(accuracy(result["baselines"][key]) for result in found.values())])
    sizes = [
        f"{SETS[name].title} ({result['examples']['test']:,})" for name, result in found.items()
    ]
    table = markdown(["test accuracy, per cent", *sizes], rows)
    return f"{table}\n\n{origins({f'{name}.json': result for name, result in found.items()})}"


def all_units(result: dict[str, Any]) -> str:
    """Return the accuracy of all units, the number of units that have a weight, and C."""
    return f"{accuracy(result)}, {result['nonzero']} non-zero, C {result['c']:g}"


def top_unit(neuron: dict[str, Any]) -> str:
    """Return the accuracy of the unit of largest weight, its index and its sign."""
    return f"{accuracy(neuron)}, unit {neuron['index']}, {'+' if neuron['polarity'] > 0 else '-'}"
