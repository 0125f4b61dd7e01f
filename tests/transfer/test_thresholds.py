"""The threshold: the best cut, for accuracy where it is surely better, else one half."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from transfer.thresholds import choose_threshold


def draw(seed, count=40):
    """Probabilities, some of them equal, that follow labels of which few are positive."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(count) < 0.25).astype(np.int64)
    return np.round((0.5 * labels + generator.random(count)) / 1.5, 1), labels


@pytest.mark.parametrize("seed", range(3))
def test_no_cut_has_a_better_f1(seed):
    probabilities, labels = draw(seed)
    cuts = np.linspace(-0.05, 1.05, 12)  # one between any two probabilities, one beyond each end
    chosen = choose_threshold(probabilities, labels, "f1")
    best, own = (
        max(f1_score(labels, probabilities > cut, zero_division=0.0) for cut in each)
        for each in (cuts, [chosen])
    )
    assert own == pytest.approx(best, abs=1e-12)
    assert 0 <= chosen <= 1


def test_the_threshold_is_a_half_unless_another_is_better():
    perfect = np.array([0.1, 0.2, 0.8, 0.9])
    assert choose_threshold(perfect, np.array([0, 0, 1, 1]), "f1") == 0.5
    for label in (0, 1):
        assert choose_threshold(perfect, np.full(4, label), "f1") == 0.5
        assert choose_threshold(np.linspace(0.2, 0.9, 100), np.full(100, label)) == 0.5


@pytest.mark.parametrize(
    ("low", "lower", "upper", "high", "nearest"),
    [(0.1, 0.2, 0.3, 0.4, 0.35), (0.6, 0.7, 0.8, 0.9, 0.65)],
)
def test_of_equal_cuts_the_one_nearest_to_a_half_is_chosen(low, lower, upper, high, nearest):
    """Either cut next to the two in the middle, which are the wrong way round, errs once."""
    probabilities = np.array([low] * 10 + [lower, upper] + [high] * 10)
    labels = np.array([0] * 10 + [1, 0] + [1] * 10)
    assert choose_threshold(probabilities, labels) == pytest.approx(nearest)


def test_a_cut_below_all_probabilities_may_have_the_best_f1():
    probabilities, labels = np.array([0.1, 0.1, 0.1, 0.9]), np.array([1, 1, 1, 0])
    assert choose_threshold(probabilities, labels, "f1") == pytest.approx(0.05)  # of all: 6/7


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


@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.9, 0.9], [0.3]])
def test_equal_probabilities_leave_one_half(probabilities):
    labels = np.arange(len(probabilities)) % 2
    assert choose_threshold(np.array(probabilities), labels) == 0.5


@pytest.mark.parametrize(("fixed", "expected"), [(4, 0.5), (5, 0.75)])
def test_a_cut_is_surely_better_by_more_than_two_standard_errors_of_what_it_changes(
    fixed, expected
):
    """It fixes all that it changes: n of n, where chance alone has a deviation of sqrt(n)."""
    probabilities = np.array([0.6] * fixed + [0.9] * 20)
    labels = np.array([0] * fixed + [1] * 20)
    assert choose_threshold(probabilities, labels) == pytest.approx(expected)


@pytest.mark.parametrize(("below", "above", "expected"), [(0.3, 0.5, 0.4), (0.5, 0.7, 0.5)])
def test_a_probability_of_one_half_is_not_above_one_half(below, above, expected):
    probabilities, labels = np.array([below] * 8 + [above] * 8), np.array([0] * 8 + [1] * 8)
    assert choose_threshold(probabilities, labels) == pytest.approx(expected)


@pytest.mark.parametrize(("label", "expected"), [(1, 0.25), (0, 0.75)])
def test_a_cut_outside_all_probabilities_may_be_best(label, expected):
    """Nine texts in ten have one class, and the model separates none of them."""
    labels = np.array([label] * 90 + [1 - label] * 10)
    probabilities = np.full(100, 0.5 if label else 0.51)
    cut = choose_threshold(probabilities, labels)
    assert ((probabilities > cut) == labels).mean() == 0.9
    assert cut == pytest.approx(expected, abs=0.01)
