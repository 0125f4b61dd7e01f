"""Figures: labels are shown literally, any values have a histogram, none ends a command."""

import matplotlib as mpl
import numpy as np
import pytest

from transfer.plots import (
    STYLE,
    draw_histogram,
    draw_weights,
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


def test_figures_name_the_unit_its_pooling_and_its_state():
    histogram = unit_histogram(0, Examples(np.arange(4.0)[:, None], np.arange(4) % 2))
    axes = {
        "cell state of unit 3 after the text": {},
        "mean cell state of unit 3 over the text": {"pooling": "mean"},
        "max hidden state of unit 3 over the text": {"pooling": "max", "cell": "gru"},
    }
    for label, options in axes.items():
        assert draw_histogram(histogram, 3, **options).axes[0].get_xlabel() == label
    weights = np.array([0.1, 0, 0, 0, 0, -0.9])
    for poolings, name in ((["last"], "unit 5"), (["last", "mean"], "unit 2, mean")):
        assert [text.get_text() for text in draw_weights(weights, 5, poolings).axes[0].texts] == [
            name
        ]
