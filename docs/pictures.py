"""Draw the pictures of the pages about the sentiment neuron: python docs/pictures.py

sentences.png shows a unit while a shipped model reads; checkpoints.png the best unit of another
model at several moments of its training, from notebooks/checkpoints.json.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.units.unit_traces import sentiment_traces

DOCS = Path(__file__).resolve().parent
MODEL = "amazon_subword_1024"
SENTENCES = [
    "The beginning is boring and badly written, but the ending is wonderful and I loved it.",
    "I loved the story and the music. Sadly, the ending is a dull waste of time.",
    "It arrived late and the box was torn. The kettle is excellent, and I love it.",
    "A waste of money. The handle fell off and nobody answers.",
]
HIGH, LOW, INK, QUIET = "#2f9e77", "#d9534f", "#16181b", "#5f656d"
LETTER = 0.118  # inches of a letter's width, at 14 points


def main() -> None:
    mpl.rcParams |= {"font.family": "monospace", "text.color": INK}
    sentences().savefig(DOCS / "sentences.png", dpi=150, facecolor="white")
    checkpoints().savefig(DOCS / "checkpoints.png", dpi=150, facecolor="white")


def sentences() -> Figure:
    """Draw a sentence and a curve for each text, and what the classifier answers."""
    traces = sentiment_traces(Engine.load(MODEL), SENTENCES, show_progress=False).oriented()
    (limit,), unit = traces.ranges(), traces.units[0]
    figure, axes = _page(max(map(len, SENTENCES)), rows=4.6 * len(SENTENCES) + 0.8)
    axes.text(0, 0, f"unit {unit}: red low, green high; curve from -{limit:.2f} to {limit:.2f}",
              color=QUIET, fontsize=11)  # fmt: skip
    for row, trace in enumerate(traces.traces):
        top, values = 4.6 * row + 1.5, trace.values[:, 0] / limit
        _letters(axes, top, trace.text, values)
        middle, places = top + 1.5, np.arange(len(values)) + 0.5
        axes.hlines([middle - 0.7, middle, middle + 0.7], 0, len(values), QUIET, "dotted", lw=0.6)
        axes.plot(places, middle - 0.7 * np.clip(values, -1, 1), color=INK, lw=1.6)
        axes.text(0, top + 3, trace.verdict, color=QUIET, fontsize=11)
    return figure


def checkpoints() -> Figure:
    """Draw one sentence for each checkpoint, coloured by the unit that was best then."""
    found = json.loads((DOCS / "notebooks/checkpoints.json").read_text(encoding="utf-8"))
    text, shown = found["texts"][0], found["checkpoints"]
    ends = np.cumsum([len(word) + 1 for word in text.split()])
    words = np.searchsorted(ends, np.arange(len(text)), side="right")  # of each letter
    figure, axes = _page(len(text) + 21, rows=1.3 * len(shown) + 1.5)
    axes.text(0, 0, "million characters, best unit, its AUC", color=QUIET, fontsize=11)
    for row, each in enumerate(shown):
        top = 1.3 * (row + 1)
        axes.text(0, top, _label(each), color=QUIET, fontsize=11)
        _letters(axes, top, text, np.array(each["values"][0])[words], left=20)
    return figure


def _label(each: dict[str, Any]) -> str:
    return f"{each['million_characters']:6.1f}  {each['unit']:4}  {each['auc']:.2f}"


def _page(columns: int, rows: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(LETTER * (columns + 2), 0.25 * (rows + 0.8)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, columns + 1), ylim=(rows, -0.8))
    axes.axis("off")
    return figure, axes


def _letters(axes: Axes, top: float, text: str, values: np.ndarray, left: int = 0) -> None:
    """Write a text, each letter on the colour of its value from -1 to 1."""
    for place, (letter, value) in enumerate(zip(text, values, strict=True), left):
        color, strength = HIGH if value > 0 else LOW, 0.6 * min(abs(value), 1)
        box = Rectangle((place, top - 0.8), 1, 1.15, color=color, alpha=strength, lw=0)
        axes.add_patch(box)
        axes.text(place + 0.5, top, letter, ha="center", fontsize=14)


if __name__ == "__main__":
    main()
