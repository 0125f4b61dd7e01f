"""What each difference between our recipe and the published one is worth, from results/."""

from experiments.studies import whole_results
from experiments.tables import origins, percent, read_result, table_of

BASE = "ours_seed_0"


def table() -> str:
    """Return a line for each run: bits per character, and how far from ours; the nearest first."""
    runs = whole_results("confounders")
    found = {name.partition("_seed_")[0]: result for name, result in runs.items()}
    base = read_result("confounders", BASE)["valid_bits_per_character"]
    rows = [
        {
            "changed alone": name.replace("_", " "),
            "valid, bits per character": f"{result['valid_bits_per_character']:.3f}",
            "against ours": f"{result['valid_bits_per_character'] - base:+.3f}",
            "SST, mean state": percent(result["sst"]["mean"]["all_units"]["test_accuracy"]),
        }
        for name, result in sorted(found.items(), key=lambda i: i[1]["valid_bits_per_character"])
    ]
    return f"{table_of(rows)}\n\n{origins(runs)}"
