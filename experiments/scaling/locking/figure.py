"""The figure of interpreter.py: speed by replicas, and what was published of threads and GPUs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

# Thousand characters per second by GPUs, 32 lanes each: read off figures/both_scalability.png of
# NVIDIA/sentiment-discovery, the P100s' at 4 from its text. Nothing else of it is known here.
PUBLISHED: dict[str, dict[str, str]] = {
    "a process per GPU, V100": {"1": "4.86", "4": "14.0", "8": "27.0"},
    "a process per GPU, P100": {"4": "13.4", "8": "24.2"},
    "a process per GPU, Maxwell": {"8": "17.0"},
    "threads of one process (DataParallel)": {"8": "4.0 to 4.6"},
}
LOOKS = {
    ("reference", "threads"): ("#b2182b", "o", "loop over bytes, threads"),
    ("reference", "processes"): ("#f4a582", "s", "loop over bytes, processes"),
    ("fused", "threads"): ("#2166ac", "o", "compiled recurrence, threads"),
    ("fused", "processes"): ("#92c5de", "s", "compiled recurrence, processes"),
}


def draw(path: Path, study: Mapping[str, Any]) -> None:
    """Draw a panel for each size of the model, and the published points."""
    sizes = sorted({case["hidden_size"] for case in study["cases"]})
    figure, panels = plt.subplots(
        1, len(sizes) + 1, figsize=(4.3 * (len(sizes) + 1), 4.2), layout="constrained"
    )
    for axes, size in zip(panels, sizes, strict=False):
        draw_size(axes, study, size)
    panels[0].legend(fontsize=8)
    draw_published(panels[-1])
    for axes in panels:
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_size(axes: Any, study: Mapping[str, Any], size: int) -> None:
    """Draw the speed of all replicas over one's, with the range of the rounds."""
    own = [case for case in study["cases"] if case["hidden_size"] == size]
    counts = sorted({case["replicas"] for case in own})
    ideal = [min(count, study["cores"]) for count in counts]
    axes.plot(counts, ideal, color="#777777", linestyle=":", linewidth=1, label="the cores")
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
    """Draw the published speeds; a span where there is one."""
    colors = ("#2166ac", "#92c5de", "#d1e5f0", "#b2182b")
    for color, (way, points) in zip(colors, PUBLISHED.items(), strict=True):
        spans = {int(n): [float(x) for x in value.split(" to ")] for n, value in points.items()}
        middles = [sum(span) / len(span) for span in spans.values()]
        errors = [(max(span) - min(span)) / 2 for span in spans.values()]
        axes.errorbar(list(spans), middles, errors, color=color, marker="o", capsize=2, label=way)
    axes.set_xticks([1, 4, 8])
    axes.set(xlabel="GPUs", title="published, 32 lanes a GPU", ylim=(0, None))
    axes.set_ylabel("thousand characters/s")
    axes.legend(fontsize=8)
