"""The threshold: the best cut where it is surely better, else one half."""

import numpy as np
import pytest

from transfer.thresholds import calibrate_threshold


def accuracy(probabilities, labels, cut):
    return ((probabilities > cut) == labels).mean()


@pytest.mark.parametrize("truth", [0.2, 0.9])
def test_a_cut_that_is_surely_better_is_the_best_of_all(truth):
    random = np.random.default_rng(0)
    probabilities = random.random(400)
    labels = (probabilities + random.normal(0, 0.05, 400) > truth).astype(int)
    cut = calibrate_threshold(probabilities, labels)
    assert cut == pytest.approx(truth, abs=0.05)
    tried = [accuracy(probabilities, labels, c) for c in np.append(probabilities, [0, 1])]
    assert accuracy(probabilities, labels, cut) == max(tried)


def test_a_cut_that_is_hardly_better_is_left():
    probabilities = np.array([0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.8])
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    assert calibrate_threshold(probabilities, labels) == 0.5


def test_noise_moves_nothing():
    random = np.random.default_rng(1)
    moved = 0
    for _ in range(100):
        probabilities = random.random(200)
        labels = (random.random(200) < probabilities).astype(int)  # calibrated as they are
        moved += calibrate_threshold(probabilities, labels) != 0.5
    assert moved <= 10


@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.9, 0.9], [0.3]])
def test_equal_probabilities_leave_one_half(probabilities):
    labels = np.arange(len(probabilities)) % 2
    assert calibrate_threshold(np.array(probabilities), labels) == 0.5
