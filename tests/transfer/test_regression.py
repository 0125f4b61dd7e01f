"""The published transfer protocol on features whose answer is known."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mlstm_sentiment.errors import InputError
from tests.transfer.examples import make_examples
from transfer import regression as l1_path
from transfer.regression import (
    C_GRID,
    Examples,
    Regression,
    accuracy_interval,
    find_neuron,
    fit_regression,
    regress_on_unit,
)


def make_classes(count, seed):
    """Units 1, 4 and 6 of 8 show one class each; the others are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    features = rng.normal(size=(count, 8)).astype(np.float32)
    features[np.arange(count), np.array([1, 4, 6])[labels]] += np.array([2, 2, 4])[labels]
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


@pytest.mark.parametrize("make", [make_examples, make_classes])
def test_a_fit_that_was_stopped_has_not_converged(monkeypatch, make):
    train, val = make(60, 0), make(60, 1)
    assert fit_regression(train, val).converged is True
    monkeypatch.setattr(l1_path, "MOST_STEPS", 1)
    assert fit_regression(train, val).converged is False


def test_one_unit_has_a_c_of_its_own_and_the_polarity_of_its_weight():
    train, val = (
        Examples(0.3 * e.features, e.labels) for e in map(make_examples, (40, 40), (0, 1))
    )
    alone = [fit_regression(train.units([0]), each.units([0])) for each in (train, val)]
    assert alone[0].c != alone[1].c
    chosen = regress_on_unit(0, fit_regression(train, val), train, val).regression
    assert chosen.c == alone[1].c
    train, val = make_examples(100, 0), make_examples(100, 1)
    against = Regression(1.0, -np.eye(8)[3], 0.0, 0.5, True)
    assert find_neuron(against, train, val).polarity == -1


@pytest.mark.parametrize("polarity", [1.0, -1.0])
def test_correlation_looks_past_means_and_scales(polarity):
    """One text in ten is positive, so that a mean that is not removed would show: of a constant."""
    rng = np.random.default_rng(0)
    labels = (np.arange(1000) % 10 == 0).astype(int)
    features = rng.normal(size=(1000, 8))
    features[:, 3] += polarity * (2 * labels - 1)
    features = features * 10.0 ** np.array([2, 1, 0, -7, -1, 1, 2, 0]) + np.arange(8) * 9
    features[:, 3] -= 27
    features[:, 5] = 0.1
    examples = Examples(features.astype(np.float32), labels)
    weightless = Regression(1.0, np.zeros(8), 0.0, 0.5, True)
    neuron = find_neuron(weightless, examples, examples)
    assert (neuron.index, neuron.polarity) == (3, polarity)


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


def test_three_classes_are_fitted_one_against_the_rest():
    train, val, test = (make_classes(400, seed) for seed in range(3))
    regression = fit_regression(train, val)
    assert regression.coefficients.shape == (3, 8)
    for label in range(3):
        alone = LogisticRegression(
            l1_ratio=1.0, solver="liblinear", C=regression.c, random_state=0
        ).fit(train.features, train.labels == label)
        np.testing.assert_allclose(regression.coefficients[label], alone.coef_[0], atol=1e-3)
        np.testing.assert_allclose(regression.intercept[label], alone.intercept_[0], atol=1e-3)
    choices = regression.decide(test.features).argmax(1)
    assert regression.accuracy(test) == (choices == test.labels).mean() > 0.9
    assert regression.val_accuracy == regression.accuracy(val)
    assert regression.converged is True
    neuron = find_neuron(regression, train, val)
    assert (neuron.index, neuron.polarity) == (6, 1)  # the farthest apart; for the last class
    assert neuron.regression.accuracy(neuron.column(test)) > 0.5


def test_a_score_of_zero_is_the_first_class_and_a_unit_matters_as_to_its_most_important_class():
    undecided = Regression(1.0, np.zeros(2), 0.0, 0.5, True)
    examples = Examples(np.ones((2, 2)), np.array([0, 1]))
    assert undecided.correct(examples).tolist() == [True, False]
    weights = np.array([[3.0, 2.0], [0.0, -2.0], [0.0, 2.0]])
    assert Regression(1.0, weights, np.zeros(3), 0.5, True).importance().tolist() == [3, 2]


@pytest.mark.parametrize(("make", "unit"), [(make_examples, 3), (make_classes, 6)])
def test_zero_weights_fall_back_on_correlation_with_the_last_class(make, unit):
    train = make(12, 0)
    weak = Examples(train.features * 1e-4, train.labels)
    regression = fit_regression(weak, weak)
    assert not regression.coefficients.any()
    assert find_neuron(regression, weak, weak).index == unit


@pytest.mark.parametrize("missing", [0, 1])
def test_labels_that_lack_a_class_are_refused(missing):
    one = Examples(np.zeros((4, 2), dtype=np.float32), np.ones(4, dtype=np.int64))
    with pytest.raises(InputError, match=r"^the training labels hold a single class; two are need"):
        fit_regression(one, one)
    examples = make_classes(12, 0)
    rest = examples.subset(np.flatnonzero(examples.labels != missing))
    with pytest.raises(InputError, match=f"^the training labels lack class {missing};"):
        fit_regression(rest, examples)


def test_interval_is_wilsons():
    # p = 8/10, z = 1.95996: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    assert accuracy_interval(0.8, 10) == pytest.approx([0.490162, 0.943318], abs=1e-6)
