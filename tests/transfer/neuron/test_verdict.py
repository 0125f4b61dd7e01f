"""The verdict of a study, by the rule of the glossary, on published studies."""

import copy

import numpy as np
import pytest

from data_utils.labelled import LabelledSet
from experiments.results import read_result
from tests.support.runs import ROOT
from tests.transfer.examples import make_examples
from transfer.neuron.label_efficiency import label_efficiency, refit_intercept
from transfer.neuron.report import verdict
from transfer.plots import draw_histogram, unit_histogram
from transfer.regression import Examples, fit_regression


def study_of(model):
    return copy.deepcopy(read_result("neuron", f"{model}/neuron"))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            "amazon_subword_1024",
            "Unit 410 alone predicts 79.2 % of the test labels, all 1,024 units 80.5 %: a "
            "sentiment neuron.",
        ),
        (
            "amazon_1024",
            "Unit 739 alone predicts 72.3 % of the test labels, all 1,024 units 78.0 %: unit 929 "
            "separates the classes better, so no sentiment neuron.",
        ),
    ],
)
def test_published_studies_have_the_verdicts_of_their_page(model, sentence):
    assert verdict(study_of(model)) == sentence


def test_a_model_no_better_than_an_untrained_one_does_not_know_the_label():
    study = study_of("amazon_subword_1024")
    study["all_units"] |= {"test_accuracy": 0.55, "test_interval": [0.54, 0.56]}
    assert verdict(study).startswith("This model does not know the label yet: all 1,024 units ")
    study["all_units"]["test_interval"][0] = 0.5452  # just above the untrained model's 0.5451
    assert verdict(study).startswith("Unit 410 alone predicts")


def test_a_unit_no_better_than_the_majority_class_does_not_know_it():
    study = study_of("amazon_subword_1024")
    study["neuron"] |= {"test_accuracy": 0.51, "test_interval": [0.49, 0.53]}
    assert verdict(study) == (
        "The model knows the label, but not in this unit: all 1,024 units predict 80.5 % of the "
        "test labels, unit 410 alone 51.0 %."
    )


def test_another_unit_than_the_best_is_no_sentiment_neuron():
    study = study_of("amazon_subword_1024")
    study["neuron"] = next(row for row in study["ranking"]["units"] if row["unit"] == 841)
    study["neuron"]["index"] = 841
    assert verdict(study).endswith(
        ": unit 410 separates the classes better, so no sentiment neuron."
    )


def test_the_best_unit_is_no_sentiment_neuron_if_the_next_one_is_level():
    study = study_of("amazon_1024")
    study["neuron"] = next(row for row in study["ranking"]["units"] if row["unit"] == 929)
    study["neuron"]["index"] = 929
    assert verdict(study).endswith(
        ": other units know the label nearly as well, so no sentiment neuron."
    )


def test_a_neuron_of_one_class_against_the_rest_is_named_after_it():
    study = study_of("amazon_subword_1024")
    study["classes"] = ["not question", "question"]
    assert verdict(study).endswith(": a neuron for question.")


def test_the_known_unit_keeps_its_weight_and_the_labels_fit_its_intercept_alone():
    examples = [make_examples(count, seed) for seed, count in enumerate((60, 40, 200))]
    sets = [LabelledSet(["a"] * len(e.labels), e.labels, ("0", "1")) for e in examples]
    of_unit = fit_regression(*(part.units([3]) for part in examples[:2]))
    few = refit_intercept(of_unit, examples[0].units([3]))
    assert few.coefficients == of_unit.coefficients
    (point,) = label_efficiency(sets, examples, 3, counts=[60], draws=1)["curves"]["known_unit"]
    assert point["test_accuracy"] == few.accuracy(examples[2].units([3]))


def test_in_histograms_positive_is_to_the_right_as_the_documentation_says():
    text = " ".join((ROOT / "docs/troubleshooting.md").read_text().split())
    assert "Heatmaps, histograms and the web page show it so that high means positive" in text
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
