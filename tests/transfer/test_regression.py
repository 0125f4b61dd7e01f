"""The published transfer protocol on features whose answer is known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from model.errors import InputError
from transfer.regression import (
    C_GRID,
    Examples,
    accuracy_interval,
    find_neuron,
    fit_regression,
)


def make_examples(count, seed, polarity=1.0):
    """Unit 3 of 8 tells the label, the others are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    features = rng.normal(size=(count, 8)).astype(np.float32)
    features[:, 3] += polarity * 2 * (2 * labels - 1)
    return Examples(features, labels)


@pytest.mark.parametrize("polarity", [1.0, -1.0])
def test_the_neuron_is_found_with_its_polarity(polarity):
    train, val, test = (make_examples(400, seed, polarity) for seed in range(3))
    regression = fit_regression(train, val)
    neuron = find_neuron(regression, train, val)
    assert neuron.index == 3
    assert neuron.polarity == polarity
    assert regression.accuracy(test) > 0.95
    assert neuron.regression.accuracy(neuron.column(test)) > 0.95
    assert regression.converged


def test_weights_minimise_the_l1_objective():
    train, val = make_examples(200, 0), make_examples(200, 1)
    regression = fit_regression(train, val)
    signs = 2 * train.labels - 1

    def objective(weights):  # liblinear penalises the intercept too
        margins = signs * (train.features @ weights[:-1] + weights[-1])
        return np.abs(weights).sum() + regression.c * np.log1p(np.exp(-margins)).sum()

    found = objective(np.append(regression.coefficients, regression.intercept))
    best = min(
        minimize(objective, start, method="Powell", options={"maxiter": 20_000, "ftol": 1e-10}).fun
        for start in (np.zeros(9), np.ones(9))
    )
    assert found == pytest.approx(best, rel=1e-3)


def test_c_is_the_smallest_of_the_best_on_val():
    assert tuple(2.0**k for k in range(-8, 1)) == C_GRID
    train = make_examples(300, 0)
    val = make_examples(300, 1)
    scores = []
    for c in C_GRID:
        model = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=c, random_state=0)
        scores.append(model.fit(train.features, train.labels).score(val.features, val.labels))
    assert len(set(scores)) > 1
    assert fit_regression(train, val).c == C_GRID[scores.index(max(scores))]


def test_zero_weights_fall_back_on_correlation():
    train = make_examples(12, 0)
    weak = Examples(train.features * 1e-4, train.labels)
    regression = fit_regression(weak, weak)
    assert not regression.coefficients.any()
    assert find_neuron(regression, weak, weak).index == 3


def make_classes(count, seed):
    """Units 1, 4 and 6 of 8 tell one class each; the others are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    features = rng.normal(size=(count, 8)).astype(np.float32)
    features[np.arange(count), np.array([1, 4, 6])[labels]] += np.array([2, 2, 4])[labels]
    return Examples(features, labels)


def test_three_classes_are_told_one_against_the_rest():
    train, val, test = (make_classes(400, seed) for seed in range(3))
    regression = fit_regression(train, val)
    assert regression.coefficients.shape == (3, 8)
    for label in range(3):
        alone = LogisticRegression(
            l1_ratio=1.0, solver="liblinear", C=regression.c, random_state=0
        ).fit(train.features, train.labels == label)
        np.testing.assert_allclose(regression.coefficients[label], alone.coef_[0], atol=1e-6)
        np.testing.assert_allclose(regression.intercept[label], alone.intercept_[0], atol=1e-6)
    choices = regression.decide(test.features).argmax(1)
    assert regression.accuracy(test) == (choices == test.labels).mean() > 0.9
    assert regression.val_accuracy == regression.accuracy(val)
    neuron = find_neuron(regression, train, val)
    assert (neuron.index, neuron.polarity) == (6, 1)  # the farthest apart; for the last class
    assert neuron.regression.accuracy(neuron.column(test)) > 0.5


def test_of_three_classes_zero_weights_fall_back_on_the_last():
    train = make_classes(12, 0)
    weak = Examples(train.features * 1e-4, train.labels)
    regression = fit_regression(weak, weak)
    assert not regression.coefficients.any()
    assert find_neuron(regression, weak, weak).index == 6


def test_one_class_is_refused():
    one = Examples(np.zeros((4, 2), dtype=np.float32), np.ones(4, dtype=np.int64))
    with pytest.raises(InputError, match="a single class"):
        fit_regression(one, one)


def test_interval_is_wilsons():
    # p = 8/10, z = 1.95996: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    assert accuracy_interval(0.8, 10) == pytest.approx([0.490162, 0.943318], abs=1e-6)
