"""The threshold: the best cut where it is surely better, else one half."""

import numpy as np
import pytest

from transfer.thresholds import choose_threshold


def accuracy(probabilities, labels, cut):
    return ((probabilities > cut) == labels).mean()


@pytest.mark.parametrize("truth", [0.2, 0.9])
def test_a_cut_that_is_surely_better_is_the_best_of_all(truth):
    random = np.random.default_rng(0)
    probabilities = random.random(400)
    labels = (probabilities + random.normal(0, 0.05, 400) > truth).astype(int)
    cut = choose_threshold(probabilities, labels)
    assert cut == pytest.approx(truth, abs=0.05)
    tried = [accuracy(probabilities, labels, c) for c in np.append(probabilities, [0, 1])]
    assert accuracy(probabilities, labels, cut) == max(tried)


def test_a_cut_that_is_hardly_better_is_left():
    probabilities = np.array([0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.8])
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    assert choose_threshold(probabilities, labels) == 0.5


def test_noise_moves_nothing():
    random = np.random.default_rng(1)
    moved = 0
    for _ in range(100):
        probabilities = random.random(200)
        labels = (random.random(200) < probabilities).astype(int)  # calibrated as they are
        moved += choose_threshold(probabilities, labels) != 0.5
    assert moved <= 10


@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.9, 0.9], [0.3]])
def test_equal_probabilities_leave_one_half(probabilities):
    labels = np.arange(len(probabilities)) % 2
    assert choose_threshold(np.array(probabilities), labels) == 0.5


@pytest.mark.parametrize(("mended", "expected"), [(4, 0.5), (5, 0.75)])
def test_a_cut_is_surely_better_by_more_than_two_standard_errors_of_what_it_changes(
    mended, expected
):
    """It mends all that it changes: n of n, where chance alone has a deviation of sqrt(n)."""
    probabilities = np.array([0.6] * mended + [0.9] * 20)
    labels = np.array([0] * mended + [1] * 20)
    assert choose_threshold(probabilities, labels) == pytest.approx(expected)


@pytest.mark.parametrize(("below", "above", "expected"), [(0.3, 0.5, 0.4), (0.5, 0.7, 0.5)])
def test_a_probability_of_one_half_is_not_above_one_half(below, above, expected):
    probabilities, labels = np.array([below] * 8 + [above] * 8), np.array([0] * 8 + [1] * 8)
    assert choose_threshold(probabilities, labels) == pytest.approx(expected)


@pytest.mark.parametrize(("label", "expected"), [(1, 0.25), (0, 0.75)])
def test_a_cut_outside_all_probabilities_may_be_best(label, expected):
    """Nine texts in ten have one class, and the model tells none of them apart."""
    labels = np.array([label] * 90 + [1 - label] * 10)
    probabilities = np.full(100, 0.5 if label else 0.51)
    cut = choose_threshold(probabilities, labels)
    assert ((probabilities > cut) == labels).mean() == 0.9
    assert cut == pytest.approx(expected, abs=0.01)
