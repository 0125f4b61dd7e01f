"""Figures: labels are shown literally, any values have a histogram, none ends a command."""

import matplotlib as mpl
import numpy as np
import pytest

from transfer.plots import (
    STYLE,
    draw_histogram,
    legend,
    save_png,
    unit_histogram,
)
from transfer.regression import Examples

CLASSES = ("$x^{$", "_left out", r"\$ 5", "a$b$c")


def test_a_label_is_shown_literally(tmp_path):
    examples = Examples(np.arange(8.0)[:, None], np.arange(8) % 4)
    figure = draw_histogram(unit_histogram(0, examples, legend(CLASSES)), 0)
    shown = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(shown) == 4
    save_png(figure, tmp_path / "neuron.png")  # raises where a label is no formula
    with mpl.rc_context(STYLE):
        figure.savefig(tmp_path / "neuron.svg")
    svg = (tmp_path / "neuron.svg").read_text()
    for name in CLASSES:
        assert f">label {name}<" in svg


@pytest.mark.parametrize(
    "values",
    [[1.0, np.nextafter(np.float32(1), np.float32(2))], [0.0, 1e-45], [-3e38, 3e38], [0.3, 0.3]],
)
def test_any_values_have_a_histogram(tmp_path, values):
    examples = Examples(np.array(values, np.float32)[:, None], np.array([0, 1]))
    histogram = unit_histogram(0, examples)
    assert histogram["edges"] == sorted(set(histogram["edges"]))
    assert sum(histogram["negative"]) == sum(histogram["positive"]) == 1
