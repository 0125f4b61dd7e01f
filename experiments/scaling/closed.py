"""The tables of three closed studies: convergence under scale, threads, and precision.

Their commands name the revision that measured them and that holds the code.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.tables import markdown

Found = Mapping[str, Any]
SERIES = {
    "same": "the base rate, unscaled",
    "another seed": "the same, another seed",
    "linear": "rate linear in lanes",
    "square root": "rate by the square root",
    "papers": "the papers' rule: 5e-4 x lanes / 128, at most 3e-3",
    "adasum": "Adasum of ranks of 16 lanes, the base rate",
    "skipped, same": "16 lanes, synchronised every 4th or 16th window, the base rate",
    "skipped, square root": "the same, rate by the square root",
}
UPDATES = (16, 64, 256, 1024)  # lanes times windows of an update
KINDS = {"reference": "loop over bytes", "fused": "compiled recurrence"}


def convergence(study: Found) -> str:
    """Return bits per character for equal characters, equal updates, and the searched rates."""
    tried = [run for run in study["runs"] if run["series"] == "searched"]
    best = min(tried, key=lambda run: run["valid_bits_per_character"])
    runs = [*study["runs"], {**best, "series": "same"}]  # every rule begins at the best rate
    steps = {run["steps"] for run in runs if run["part"] < 1}
    rates = [
        [f"{run['rate']:g}", f"{run['valid_bits_per_character']:.3f}"]
        for run in sorted(tried, key=lambda run: run["rate"])
    ]
    return "\n\n".join([
        "Valid, bits per character (peak rate), after as many characters:",
        by_update([run for run in runs if run["part"] == 1], UPDATES),
        "Valid, bits per character (peak rate), after as many updates as 256 lanes took:",
        by_update([run for run in runs if run["steps"] in steps], UPDATES[:3]),
        f"The base rate, searched at {study['base']['lanes']} lanes:",
        markdown(["peak rate", "valid, bits per character"], rates),
    ])  # fmt: skip


def by_update(runs: Sequence[Found], updates: Sequence[int]) -> str:
    """Return a row for each series and a column for each size of an update."""
    cells = {
        (run["series"], run["lanes"] * run["windows_per_step"]): (
            f"{run['valid_bits_per_character']:.3f} ({run['rate']:.3g})"
        )
        for run in runs
    }
    rows = [[words, *(cells.get((name, n), "") for n in updates)] for name, words in SERIES.items()]
    head = ["lanes x windows of an update", *(f"{n:,}" for n in updates)]
    return markdown(head, [row for row in rows if any(row[1:])])


def interpreter(study: Found) -> str:
    """Return the speed of replicas in threads and in processes, and the published ones."""
    kinds: dict[tuple[str, int], dict[tuple[int, str], Found]] = {}
    for case in study["cases"]:
        own = kinds.setdefault((case["backend"], case["hidden_size"]), {})
        own[case["replicas"], case["how"]] = case
    ways = [way for way in next(iter(kinds.values())) if way[0] > 1]
    rows = [
        [
            f"{KINDS[backend]}, {units} units",
            f"{own[1, 'alone']['characters_per_second']:,.0f}",
            *(speedup(own[way]) for way in ways),
        ]
        for (backend, units), own in kinds.items()
    ]
    head = ["times the speed of one (all rounds; cores busy)", "one: characters/s"]
    most, cores = max(ways)[0], study["cores"]
    published = [
        [way, *(points.get(n, "") for n in ("1", "4", "8"))]
        for way, points in study["published"].items()
    ]
    return "\n\n".join([
        markdown([*head, *(f"{count} {how}" for count, how in ways)], rows),
        f"{cores} cores: {most} replicas share them.",
        markdown(["published, thousand characters/s", "1 GPU", "4", "8"], published),
    ])  # fmt: skip


def speedup(case: Found) -> str:
    """Return the speed over one replica's with its range over rounds, and the busy cores."""
    low, high = case["speedup_range"]
    return f"{case['speedup']:.2f} ({low:.2f} to {high:.2f}; {case['cores_busy']:.1f})"


def precision(study: Found) -> str:
    """Return the bits by precision, the memory counted, and that of the published model."""
    memory, published = study["memory"], study["memory_of_the_published_model"]
    fp32 = next(run for run in study["runs"] if run["way"] == "fp32")["valid_bits_per_character"]
    counted = [
        [kind.replace("_", " "), *(f"{of['bytes'][kind] / 1e6:.2f}" for of in memory.values())]
        for kind in memory["fp32"]["bytes"]
    ]
    worked_out = [
        [f"{lanes} lanes", *(f"{of[lanes] / 1e9:.1f}" for of in published.values())]
        for lanes in published["fp32"]
    ]
    head = ["", "valid, bits per character", "against fp32", "steps that overflowed"]
    return "\n\n".join([
        markdown([*head, "loss scale at the end"], [learnt(run, fp32) for run in study["runs"]]),
        markdown(
            ["megabytes of the runs' model, counted", *memory],
            [*counted, ["computed by", *(of["recurrence"] for of in memory.values())]],
        ),
        markdown(["gigabytes of 4,096 units, windows of 256, worked out", *published], worked_out),
    ])  # fmt: skip


def learnt(run: Found, fp32: float) -> list[str]:
    """Return a run's bits, their difference from fp32, and what became of its loss scale."""
    bits = run["valid_bits_per_character"]
    scaled = [row for row in run["rows"] if "loss_scale" in row]
    overflows = str(sum(row["overflows"] for row in scaled)) if scaled else ""
    scale = f"2^{math.log2(scaled[-1]['loss_scale']):.0f}" if scaled else ""
    return [run["way"], f"{bits:.4f}", f"{bits - fp32:+.4f}", overflows, scale]
