"""The table of clamped units, from results/."""

from experiments.tables import markdown, origins, percent, read_result


def clamped(model: str) -> str:
    """Return a line for each value of the unit."""
    found = read_result("generation", model)
    rows = [
        [
            f"{row['value']:+g}" if "value" in row else "not clamped",
            percent(row["positive"], row["positive_interval"]),
            f"{row['bits_per_character']:.3f} +- {row['bits_standard_error']:.3f}",
            f"{row['distinct_words']:.2f}",
        ]
        for row in found["rows"]
    ]
    unit = f"unit {found['unit']} clamped to"
    head = [unit, "positive, per cent", "bits per character", "distinct words"]
    return f"{markdown(head, rows)}\n\n{origins({f'{model}.json': found})}"
