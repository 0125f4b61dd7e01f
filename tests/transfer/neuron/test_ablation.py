"""Few units, and all but one, on features whose answer is known."""

import numpy as np
import pytest

from tests.transfer.examples import make_examples
from transfer.neuron.ablation import accuracy_by_units, round_counts, without_unit
from transfer.regression import fit_regression


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


def test_without_the_unit_that_knows_the_label_the_rest_guesses(sets):
    whole = fit_regression(sets[0], sets[1])
    result = without_unit(3, sets, whole)
    assert result["refitted"]["test_accuracy"] < 0.65
    low, high = result["refitted"]["lost_interval"]
    assert 0.25 < low < result["refitted"]["lost"] < high
    lost = whole.accuracy(sets[2]) - result["refitted"]["test_accuracy"]
    assert result["refitted"]["lost"] == pytest.approx(lost)


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


def test_a_unit_of_noise_is_not_missed(sets):
    whole = fit_regression(sets[0], sets[1])
    low, high = without_unit(0, sets, whole)["refitted"]["lost_interval"]
    assert low <= 0 <= high
