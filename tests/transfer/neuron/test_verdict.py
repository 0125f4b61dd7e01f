"""The verdict of a study, by the rule of the glossary, on published studies."""

import copy

import matplotlib as mpl
import numpy as np
import pytest

from experiments.results import read_result
from transfer.neuron.report import verdict
from transfer.plots import STYLE, draw_histogram, legend, save_png, unit_histogram
from transfer.regression import Examples


def study_of(model):
    return copy.deepcopy(read_result("neuron", f"{model}/neuron"))


def of_unit(study, place):
    study["neuron"] = row = dict(study["ranking"]["units"][place])
    row["index"] = row["unit"]


def as_good_as_untrained(study, low=0.54):
    study["all_units"] |= {"test_accuracy": 0.55, "test_interval": [low, 0.56]}


def a_unit_at_chance(study):
    study["neuron"] |= {"test_accuracy": 0.51, "test_interval": [0.49, 0.53]}


def just_above_the_untrained(study):
    as_good_as_untrained(study, study["baselines"]["untrained"]["test_accuracy"] + 1e-4)


SHIPPED, SMALLER = "amazon_subword_1024", "amazon_1024"
ALONE = "Unit {unit} alone predicts {alone} % of the test labels, all 1,024 units {all} %: "
BETTER = "unit {best} separates the classes better, so no sentiment neuron."
NOT_IN_IT = (
    "The model knows the label, but not in this unit: all 1,024 units predict {all} % of the test "
    "labels, unit {unit} alone 51.0 %."
)


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [
        (SHIPPED, lambda study: None, ALONE + "a sentiment n"),  # as its page says
        (SMALLER, lambda study: None, ALONE + BETTER),  # so does this one's
        (SHIPPED, as_good_as_untrained, "No better than an untrained model: all 1,024"),
        (SHIPPED, just_above_the_untrained, "Unit {unit} alone predicts"),
        (SHIPPED, a_unit_at_chance, NOT_IN_IT),
        (SHIPPED, lambda study: of_unit(study, 1), BETTER),
        (SMALLER, lambda study: of_unit(study, 0), "other units know the label nearly as well"),
        (SHIPPED, lambda study: study.update(classes=["not q", "q"]), ": a neuron for q."),
    ],
)
def test_the_verdict_follows_the_rule_of_the_glossary(model, change, sentence):
    study = study_of(model)
    change(study)
    alone, every = (f"{100 * study[part]['test_accuracy']:.1f}" for part in ("neuron", "all_units"))
    best = study["ranking"]["units"][0]["unit"]
    about = {"unit": study["neuron"]["index"], "best": best, "alone": alone, "all": every}
    assert sentence.format(**about) in verdict(study)


def test_in_histograms_positive_is_to_the_right():
    values = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    histogram = unit_histogram(0, Examples(values, np.array([1, 1, 0, 0])))  # low is positive
    assert histogram["positive"][0] == 1
    (axes,) = draw_histogram(histogram, 0, polarity=-1, cut=-0.5).axes
    positive = axes.patches[1]
    assert positive.get_label() == "positive"
    assert positive.get_data().values[-1] == 1
    np.testing.assert_allclose(positive.get_data().edges[[0, -1]], [-2, 2])
    assert axes.lines[0].get_xdata()[0] == 0.5
    assert axes.get_xlabel().endswith("after the text, sign turned")


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
