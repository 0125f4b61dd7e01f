"""The threshold: the best cut, for accuracy where it is surely better, else one half."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from transfer.metrics import choose_threshold


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


PERFECT, ALL = [0.1, 0.2, 0.8, 0.9], np.linspace(0.2, 0.9, 100).tolist()


@pytest.mark.parametrize(
    ("probabilities", "labels", "metric", "expected"),
    [
        # One half, unless another is better.
        (PERFECT, [0, 0, 1, 1], "f1", 0.5),
        *((PERFECT, [label] * 4, "f1", 0.5) for label in (0, 1)),
        *((ALL, [label] * 100, "accuracy", 0.5) for label in (0, 1)),
        *(
            (equal, [0, 1][: len(equal)], "accuracy", 0.5)
            for equal in ([0.5] * 2, [0.9] * 2, [0.3])
        ),
        # A probability of one half is not above one half.
        ([0.3] * 8 + [0.5] * 8, [0] * 8 + [1] * 8, "accuracy", 0.4),
        ([0.5] * 8 + [0.7] * 8, [0] * 8 + [1] * 8, "accuracy", 0.5),
        # Of equal cuts, next to two that are the wrong way round, the one nearest to one half.
        ([0.1] * 10 + [0.2, 0.3] + [0.4] * 10, [0] * 10 + [1, 0] + [1] * 10, "accuracy", 0.35),
        ([0.6] * 10 + [0.7, 0.8] + [0.9] * 10, [0] * 10 + [1, 0] + [1] * 10, "accuracy", 0.65),
        # By more than two standard errors of what it changes: sqrt(n), where it fixes n of n.
        ([0.6] * 4 + [0.9] * 20, [0] * 4 + [1] * 20, "accuracy", 0.5),
        ([0.6] * 5 + [0.9] * 20, [0] * 5 + [1] * 20, "accuracy", 0.75),
        # Below all: it is the best F1, 6/7.
        ([0.1, 0.1, 0.1, 0.9], [1, 1, 1, 0], "f1", 0.05),
    ],
)
def test_the_threshold_is_the_one_worked_out_by_hand(probabilities, labels, metric, expected):
    chosen = choose_threshold(np.array(probabilities), np.array(labels), metric)
    assert chosen == pytest.approx(expected)


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


@pytest.mark.parametrize(("label", "expected"), [(1, 0.25), (0, 0.75)])
def test_a_cut_outside_all_probabilities_may_be_best(label, expected):
    """Nine texts in ten have one class, and the model separates none of them."""
    labels = np.array([label] * 90 + [1 - label] * 10)
    probabilities = np.full(100, 0.5 if label else 0.51)
    cut = choose_threshold(probabilities, labels)
    assert ((probabilities > cut) == labels).mean() == 0.9
    assert cut == pytest.approx(expected, abs=0.01)
