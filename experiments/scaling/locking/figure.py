"""Draw the speed by the number of replicas, and the published speeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.figures import BLUE, GREY, RED, draw_grid, open_frame, panels

# Thousand characters per second by the number of GPUs, with 32 lanes each. All values were read
# from figures/both_scalability.png of NVIDIA/sentiment-discovery; that of 4 P100s is in its text.
PUBLISHED: dict[str, dict[str, str]] = {
    "a process per GPU, V100": {"1": "4.86", "4": "14.0", "8": "27.0"},
    "a process per GPU, P100": {"4": "13.4", "8": "24.2"},
    "a process per GPU, Maxwell": {"8": "17.0"},
    "threads of one process (DataParallel)": {"8": "4.0 to 4.6"},
}
LOOKS = {
    ("reference", "threads"): (RED, "o", "loop over bytes, threads"),
    ("reference", "processes"): ("#f4a582", "s", "loop over bytes, processes"),
    ("fused", "threads"): (BLUE, "o", "compiled recurrence, threads"),
    ("fused", "processes"): ("#92c5de", "s", "compiled recurrence, processes"),
}


def draw(path: Path, study: Mapping[str, Any]) -> None:
    """Draw a panel for each size of the model, and the published points."""
    sizes = sorted({case["hidden_size"] for case in study["cases"]})
    columns = len(sizes) + 1
    with panels(path, 1, columns, size=(4.3 * columns, 4.2)) as (_, row):
        for axes, size in zip(row, sizes, strict=False):
            draw_size(axes, study, size)
        row[0].legend(fontsize=8)
        draw_published(row[-1])
        draw_grid(*row)
        open_frame(*row)


def draw_size(axes: Any, study: Mapping[str, Any], size: int) -> None:
    """Draw the speed of all replicas over that of one, with its range over the rounds."""
    own = [case for case in study["cases"] if case["hidden_size"] == size]
    counts = sorted({case["replicas"] for case in own})
    ideal = [min(count, study["cores"]) for count in counts]
    axes.plot(counts, ideal, color=GREY, linestyle=":", linewidth=1, label="the cores")
    for (backend, how), (color, marker, label) in LOOKS.items():
        cases = [c for c in own if c["backend"] == backend and c["how"] in (how, "alone")]
        values = [case["speedup"] for case in cases]
        errors = [
            [abs(case["speedup"] - case["speedup_range"][end]) for case in cases] for end in (0, 1)
        ]
        places = [case["replicas"] for case in cases]
        axes.errorbar(places, values, errors, color=color, marker=marker, capsize=2, label=label)
    axes.set_xticks(counts)
    axes.set(xlabel=f"replicas on {study['cores']} cores", title=f"{size} units", ylim=(0, None))
    axes.set_ylabel("times the speed of one replica")


def draw_published(axes: Any) -> None:
    """Draw the published speeds, some of which are ranges."""
    colors = (BLUE, "#92c5de", "#d1e5f0", RED)
    for color, (way, points) in zip(colors, PUBLISHED.items(), strict=True):
        spans = {int(n): [float(x) for x in value.split(" to ")] for n, value in points.items()}
        middles = [sum(span) / len(span) for span in spans.values()]
        errors = [(max(span) - min(span)) / 2 for span in spans.values()]
        axes.errorbar(list(spans), middles, errors, color=color, marker="o", capsize=2, label=way)
    axes.set_xticks([1, 4, 8])
    axes.set(xlabel="GPUs", title="published, 32 lanes a GPU", ylim=(0, None))
    axes.set_ylabel("thousand characters/s")
    axes.legend(fontsize=8)
