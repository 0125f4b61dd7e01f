"""Thresholds against trying every possible cut with scikit-learn's metrics."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score, matthews_corrcoef

from transfer.thresholds import choose_threshold, choose_thresholds

SCORES = {
    "f1": lambda truth, told: f1_score(truth, told, zero_division=0.0),
    "jaccard": lambda truth, told: jaccard_score(truth, told, zero_division=0.0),
    "mcc": matthews_corrcoef,
}


def draw(seed, count=40):
    """Probabilities, some of them equal, that lean on labels of which few are positive."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(count) < 0.25).astype(np.int64)
    return np.round((0.5 * labels + generator.random(count)) / 1.5, 1), labels


@pytest.mark.parametrize("metric", SCORES)
@pytest.mark.parametrize("seed", range(3))
def test_no_cut_is_better(metric, seed):
    probabilities, labels = draw(seed)
    score = SCORES[metric]
    cuts = np.linspace(-0.05, 1.05, 12)  # one between any two probabilities, one beyond each end
    best = max(score(labels, (probabilities > cut).astype(int)) for cut in cuts)
    chosen = choose_threshold(probabilities, labels, metric)
    found = score(labels, (probabilities > chosen).astype(int))
    assert found == pytest.approx(best, abs=1e-12)
    assert 0 <= chosen <= 1


def test_each_class_has_its_own():
    columns = [draw(seed) for seed in range(3)]
    probabilities, labels = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    each = tuple(choose_threshold(p, truth, "f1") for p, truth in columns)
    assert choose_thresholds(probabilities, labels, "f1") == each
    assert len(set(each)) > 1


def test_the_threshold_is_a_half_unless_another_is_better():
    perfect = np.array([0.1, 0.2, 0.8, 0.9])
    assert choose_threshold(perfect, np.array([0, 0, 1, 1]), "f1") == 0.5
    for labels in (np.zeros(4, dtype=int), np.ones(4, dtype=int)):
        assert choose_threshold(perfect, labels, "f1") == 0.5


@pytest.mark.parametrize("label", [0, 1])
def test_labels_that_are_alike_move_no_threshold(label):
    probabilities, labels = np.linspace(0.2, 0.9, 100), np.full(100, label)
    assert choose_threshold(probabilities, labels, "accuracy") == 0.5


@pytest.mark.parametrize("metric", ["accuracy", "mcc"])
@pytest.mark.parametrize(
    ("low", "lower", "upper", "high", "nearest"),
    [(0.1, 0.2, 0.3, 0.4, 0.35), (0.6, 0.7, 0.8, 0.9, 0.65)],
)
def test_of_equal_cuts_the_one_nearest_to_a_half_is_chosen(
    metric, low, lower, upper, high, nearest
):
    """Either cut beside the two in the middle, which are the wrong way round, errs once."""
    probabilities = np.array([low] * 10 + [lower, upper] + [high] * 10)
    labels = np.array([0] * 10 + [1, 0] + [1] * 10)
    assert choose_threshold(probabilities, labels, metric) == pytest.approx(nearest)


@pytest.mark.parametrize(
    ("metric", "positives", "negatives", "expected"),
    [
        ("f1", [0.1, 0.1, 0.1], [0.9], 0.05),  # all of them: 6/7
        ("mcc", [0.1], [0.6], 0.8),  # none: 0, and -1 between them
    ],
)
def test_a_cut_beyond_all_probabilities_may_be_the_best(metric, positives, negatives, expected):
    probabilities = np.array(positives + negatives)
    labels = np.array([1] * len(positives) + [0] * len(negatives))
    assert choose_threshold(probabilities, labels, metric) == pytest.approx(expected)


def test_a_single_positive_that_is_found_alone_is_found_perfectly():
    probabilities, labels = np.array([0.1, 0.6, 0.9]), np.array([0, 0, 1])
    assert choose_threshold(probabilities, labels, "jaccard") == pytest.approx(0.75)
