"""Draws of labels, and what is learned from few of them."""

import numpy as np
import pytest

from data_utils.labelled import LabelledSet
from tests.transfer.examples import make_examples
from transfer.neuron.ablation import accuracy_by_units, round_counts, without_unit
from transfer.neuron.label_efficiency import label_efficiency, refit_intercept, stratified_order
from transfer.regression import Examples, Regression, fit_regression


@pytest.mark.parametrize("fraction", [0.5, 0.1, 0.01])
def test_every_beginning_of_a_draw_has_the_shares(fraction):
    labels = (np.arange(400) < 400 * fraction).astype(np.int64)
    order = stratified_order(labels, seed=1)
    assert sorted(order) == list(range(400))
    assert set(labels[order[:2]]) == {0, 1}
    for count in range(2, 401):
        assert abs(labels[order[:count]].sum() - fraction * count) <= 2
    again = stratified_order(labels, seed=1)
    np.testing.assert_array_equal(order, again)
    assert (order != stratified_order(labels, seed=2)).mean() > 0.9


def test_only_the_intercept_is_fitted_and_it_is_the_likeliest():
    rng = np.random.default_rng(2)
    labels = np.arange(60) % 2
    features = (labels + rng.normal(size=60))[:, None]
    before = Regression(1.0, np.array([0.7]), 9.0, 0.5, True)
    fitted = refit_intercept(before, Examples(features, labels))
    assert fitted.coefficients is before.coefficients
    # An unpenalised regression on a constant, with w x as a given offset, by Newton's method.
    offset, by_newton = features @ before.coefficients, 0.0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-offset - by_newton))
        by_newton += (labels - chance).sum() / (chance * (1 - chance)).sum()
    assert fitted.intercept == pytest.approx(by_newton, abs=1e-9)


@pytest.mark.parametrize("positive", [1, 199])
def test_the_intercept_of_a_rare_class_is_found(positive):
    features = np.random.default_rng(0).normal(size=(200, 1))
    labels = (np.arange(200) < positive).astype(np.int64)
    before = Regression(1.0, np.array([0.7]), 0.0, 0.5, True)
    fitted = refit_intercept(before, Examples(features, labels))
    chances = 1 / (1 + np.exp(-fitted.decide(features)))
    assert chances.mean() == pytest.approx(positive / 200)


def test_a_known_unit_serves_with_the_fewest_labels():
    """Two labels are too few for the penalised regression, which drops the unit."""
    examples = [make_examples(count, seed) for seed, count in enumerate((400, 80, 400))]
    sets = [LabelledSet(["a"] * len(e.labels), e.labels, ("0", "1")) for e in examples]
    curves = label_efficiency(sets, examples, 3, counts=[2], draws=10)["curves"]
    alone = fit_regression(*(part.units([3]) for part in examples[:2]))
    whole = alone.accuracy(examples[2].units([3]))
    assert curves["known_unit"][0]["test_accuracy"] > 0.9 * whole


def test_a_known_unit_needs_fewer_labels_than_one_to_be_found():
    examples = [make_examples(count, seed) for seed, count in enumerate((120, 80, 200))]
    rng = np.random.default_rng(0)
    for place, part in enumerate(examples):  # weaker, and among more noise
        part.features[:, 3] -= part.labels * 2 - 1
        noise = rng.normal(size=(len(part.labels), 200))
        examples[place] = Examples(np.concatenate([part.features, noise], axis=1), part.labels)
    sets = [
        LabelledSet([("good " if y else "bad ") + str(i % 7) for i, y in enumerate(e.labels)],
                    e.labels, ("0", "1"))
        for e in examples
    ]  # fmt: skip
    curves = label_efficiency(sets, examples, 3, counts=[8, 120], draws=4)["curves"]
    assert set(curves) == {"all_units", "known_unit", "found_unit", "tfidf"}
    assert [len(point["accuracies"]) for point in curves["all_units"]] == [4, 1]
    few, _ = curves["known_unit"]
    assert few["test_accuracy"] >= curves["found_unit"][0]["test_accuracy"]
    assert few["band"][0] <= few["test_accuracy"] <= few["band"][1]
    for rows in curves.values():
        assert rows[-1]["test_accuracy"] > 0.75
        assert rows[-1]["mean_interval"] is None
        low, high = rows[-1]["draw_interval"]
        assert low <= rows[-1]["test_accuracy"] <= high > low
    assert len(set(curves["all_units"][0]["accuracies"])) > 1  # the draws differ


@pytest.fixture(scope="module")
def sets():
    return tuple(make_examples(300, seed) for seed in range(3))


def test_counts_are_round_and_end_with_all():
    assert round_counts(64) == [1, 2, 5, 10, 20, 50, 64]
    assert round_counts(100, first=10) == [10, 20, 50, 100]
    assert round_counts(3, first=10) == [3]
    assert round_counts(1) == [1]


def test_one_unit_is_enough_if_one_knows_the_label(sets):
    whole = fit_regression(sets[0], sets[1])
    orders = {"best": np.array([3, *(set(range(8)) - {3})]), "worst": np.array([0, 1, 2, 4, 5])}
    orders["worst"] = np.array([*orders["worst"], 6, 7, 3])
    curves = accuracy_by_units(orders, sets, whole)
    assert [row["kept"] for row in curves["best"]] == [1, 2, 5, 8]
    assert curves["best"][0]["test_accuracy"] > 0.95
    assert curves["worst"][2]["test_accuracy"] < 0.65  # five units of noise
    for rows in curves.values():
        assert rows[-1]["test_accuracy"] == whole.accuracy(sets[2])
        low, high = rows[0]["test_interval"]
        assert low < rows[0]["test_accuracy"] < high


def test_without_a_unit_the_rest_guesses_if_it_knows_the_label_and_misses_no_noise(sets):
    whole = fit_regression(sets[0], sets[1])
    result = without_unit(3, sets, whole)
    assert result["refitted"]["test_accuracy"] < 0.65
    low, high = result["refitted"]["lost_interval"]
    assert 0.25 < low < result["refitted"]["lost"] < high
    lost = whole.accuracy(sets[2]) - result["refitted"]["test_accuracy"]
    assert result["refitted"]["lost"] == pytest.approx(lost)
    whole = fit_regression(sets[0], sets[1])
    low, high = without_unit(0, sets, whole)["refitted"]["lost_interval"]
    assert low <= 0 <= high


def test_a_unit_held_at_its_mean_moves_the_intercept(sets):
    whole = fit_regression(sets[0], sets[1])
    test = sets[2]
    held = without_unit(3, sets, whole)["held"]
    rest = np.delete(np.arange(8), 3)
    intercept = whole.intercept + whole.coefficients[3] * sets[0].features[:, 3].mean()
    scores = test.features[:, rest] @ whole.coefficients[rest] + intercept
    assert held["test_accuracy"] == ((scores > 0) == test.labels).mean()
    assert held["lost"] == pytest.approx(whole.accuracy(test) - held["test_accuracy"])
    assert held["lost"] > 0.1
