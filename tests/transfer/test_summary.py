"""The last lines of a transfer: what was learnt, and how much text a sentiment neuron needs."""

import copy

import pytest

from experiments.models.tables import characters_read
from experiments.results import read_result
from model.inference.weights import load_model
from tests.support.runs import ROOT
from transfer.summary import FEW_CHARACTERS, summarize

TOUR = read_result("tour", "transfer")


def test_the_tour_says_what_was_learnt_and_why_word_counts_are_ahead():
    learnt, ahead, few = summarize(TOUR)
    assert learnt == (
        "Learnt: training raised the accuracy of the features from 80.9 % (untrained) to 87.4 %."
    )
    assert ahead.startswith("Next to TF-IDF (98.6 %): behind, -11.2 points (-")
    assert ahead.endswith(") on the same texts.")
    assert few.startswith("The model was trained on 6.1 million characters.")


@pytest.mark.parametrize(
    "provenance", [{}, {"characters": FEW_CHARACTERS}, {"characters": 1, "began_from": {}}]
)
def test_enough_text_or_an_unknown_amount_is_not_mentioned(provenance):
    results = copy.deepcopy(TOUR)
    results["model"]["provenance"] = provenance
    for interval, word in (
        ([-0.01, 0.03], "level, -1.0 points (-3.0 to +1.0)"),
        ([0.0, 0.02], "level, -1.0 points (-2.0 to +0.0)"),
        ([0.004, 0.016], "behind, -1.0 points (-1.6 to -0.4)"),
    ):
        results["baselines"]["tfidf"] |= {"lost": 0.01, "lost_interval": interval}
        _, words = summarize(results)
        assert words == f"Next to TF-IDF (98.6 %): {word} on the same texts."
    results["baselines"]["tfidf"] |= {"lost": -0.02, "lost_interval": [-0.03, -0.01]}
    assert list(summarize(results))[1].startswith("Next to TF-IDF (98.6 %): ahead, +2.0 points")
    results["baselines"]["untrained"]["test_accuracy"] = results["test_interval"][0]
    assert next(summarize(results)).startswith("No better than an untrained model: 87.4 %")
    results["baselines"]["untrained"]["test_accuracy"] = 0.5
    results["baselines"]["majority"]["test_accuracy"] = results["test_interval"][0]
    assert next(summarize(results)).startswith("No better than the majority class: 87.4 %")


def test_the_amounts_of_text_are_those_of_the_curve_and_of_the_shipped_model():
    (few,) = (line for line in summarize(TOUR) if "experiments/neuron/curve.md" in line)
    curve = (ROOT / "experiments/neuron/curve.md").read_text()
    assert "**After two million characters the mean state has most of its gain**" in curve
    assert "after 2 million" in few
    assert "1,024 units, 54 million characters" in curve
    assert "**No unit stands out.**" in curve
    assert "at 54 million" in few
    characters = characters_read(load_model("amazon_subword_1024").provenance)
    assert f"after {characters / 1e6:.0f} million" in few
