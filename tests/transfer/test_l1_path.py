"""The path of regressions finds scikit-learn's optima; liblinear stops a little before them."""

import warnings

import numpy as np
import pytest
from scipy.linalg import cho_factor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from transfer import regression
from transfer.regression import C_GRID, l1_path


def one_of(count, units, distance=1.0):
    """Unit `units // 2` shows the class, every second example's."""
    rng = np.random.default_rng(count * units)
    positive = np.arange(count) % 2 == 1
    features = rng.normal(size=(count, units))
    features[:, units // 2] += np.where(positive, distance, -distance)
    return features, positive


def with_columns(change):
    features, positive = one_of(200, 10)
    return change(features), positive


def scaled(exponents):
    return with_columns(lambda features: features * 10.0 ** np.resize(exponents, 10))


def of_few_directions():
    """Two hundred units that know ten things and little else, as those of an untrained model."""
    rng = np.random.default_rng(0)
    known = rng.normal(size=(300, 10))
    features = known @ rng.normal(size=(10, 200)) + 0.05 * rng.normal(size=(300, 200))
    return features, known[:, 0] + rng.normal(size=300) > 0


CASES = {
    "plain": one_of(300, 20),
    "separable": one_of(100, 8, 50.0),
    "separable by one example": one_of(2, 3),
    "more units than examples": one_of(20, 400),
    "as many weights as units": one_of(2000, 60, 0.1),
    "constant columns": with_columns(lambda f: np.hstack([f, 0 * f[:, :1], 0 * f[:, :1] + 5])),
    "multiples": with_columns(lambda f: np.hstack([f, -f, 2 * f])),
    "dependent columns": with_columns(
        lambda f: np.hstack([f, f @ np.random.default_rng(1).normal(size=(10, 4))])
    ),
    "few directions": of_few_directions(),
    "far from 0": with_columns(lambda f: f + 30),
    "many scales": scaled([-8, -4, 0, 2, 5]),
    "huge": scaled([6]),
    "no unit of use": scaled([-9]),
    "float32": with_columns(lambda f: f.astype(np.float32)),
    "a rare class": (one_of(300, 12)[0], np.arange(300) < 3),
    "equal examples": (np.full((50, 6), 3.0), np.arange(50) % 2 == 1),
    "counts": ((np.random.default_rng(2).random((200, 50)) < 0.1) * 1, one_of(200, 2)[1]),
}


def objective(features, positive, c, weights, intercept):
    margins = np.where(positive, 1, -1) * (features.astype(np.float64) @ weights + intercept)
    return np.abs(weights).sum() + abs(intercept) + c * np.logaddexp(0, -margins).sum()


def reference(features, positive, c, **options):
    model = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=c, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, positive)
    return model.coef_[0], float(model.intercept_[0])


@pytest.mark.parametrize("name", CASES)
def test_no_objective_is_above_liblinears_and_its_optimum_is_found(name):
    """As published, liblinear may stop early; run to the end, it has the same weights."""
    features, positive = CASES[name]
    for fit in l1_path(features, positive, C_GRID):
        assert fit.converged
        own = objective(features, positive, fit.c, fit.weights, fit.intercept)
        published = reference(features, positive, fit.c)
        assert own <= objective(features, positive, fit.c, *published) * (1 + 1e-12)
        weights, intercept = reference(features, positive, fit.c, tol=1e-12, max_iter=100_000)
        assert np.abs(fit.weights).argmax() == np.abs(weights).argmax()
        assert fit.weights == pytest.approx(weights, abs=1e-4)
        assert fit.intercept == pytest.approx(intercept, abs=1e-4)


def test_units_that_follow_one_factor_need_few_changes(monkeypatch):
    """Units that enter together may block each other, so that every change is tiny."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(1000, 1))
    features = np.tanh(2 * factor * rng.normal(size=800) + 0.3 * rng.normal(size=(1000, 800)))
    positive = factor[:, 0] + 0.3 * rng.normal(size=1000) > 0
    changes = []

    def counted(*arguments, **options):
        changes.append(1)
        return cho_factor(*arguments, **options)

    monkeypatch.setattr(regression, "cho_factor", counted)
    assert all(fit.converged for fit in l1_path(features, positive, C_GRID))
    assert len(changes) < 800  # fewer than units; 6,500 if all may always enter


def test_equal_units_divide_a_weight_and_probabilities_are_scikit_learns():
    features, positive = one_of(200, 10)
    single, twice = (l1_path(f, positive, [0.5])[0] for f in (features, features.repeat(2, 1)))
    assert twice.converged
    assert twice.weights.reshape(10, 2).sum(1) == pytest.approx(single.weights, abs=1e-5)
    features, positive = CASES["plain"]
    (fit,) = l1_path(features, positive, [1.0])
    model = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=1.0).fit(features, positive)
    expected = model.predict_proba(features)[:, 1]
    assert fit.probabilities(features) == pytest.approx(expected, abs=1e-3)


def test_a_path_ends_where_its_last_c_alone_does_and_repeats_to_the_bit():
    features, positive = CASES["more units than examples"]
    *_, last = l1_path(features, positive, C_GRID)
    (alone,) = l1_path(features, positive, C_GRID[-1:])
    assert last.weights == pytest.approx(alone.weights, abs=1e-5)
    *_, again = l1_path(features, positive, C_GRID)
    assert (again.weights == last.weights).all()
