"""The published figure: what fits it, what does not, and what the constants are worth."""

import numpy as np
import pytest

from experiments.results import read_result
from experiments.scaling.least_squares import fit
from mlstm_sentiment.files.storage import read_json
from tests.support.published_points import POINTS
from tests.support.runs import done, run


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return the result of the command, called as a file, and its folder."""
    folder = tmp_path_factory.mktemp("published")
    script = "experiments/scaling/published.py"
    process = done(run(script, "--output", folder / "published.json"))
    return read_json(folder / "published.json"), folder, process.stdout


def test_four_parameters_explain_fifteen_points(published):
    result, folder, said = published
    assert result["fitted_parameters"] == len(result["parameters"]) <= 4
    for name, points in POINTS.items():
        assert result["predicted"][name] == pytest.approx(points, rel=0.03)
        assert len(result["predicted"][name]) == 5
    errors = np.array([result["predicted"][n] for n in POINTS]) / np.array([*POINTS.values()]) - 1
    assert result["worst_error"] == pytest.approx(np.abs(errors).max())
    assert "4 fitted parameters, worst error 2.2%" in said
    assert (folder / "published.png").read_bytes().startswith(b"\x89PNG")


def test_the_result_in_the_repository_is_that_of_the_code(published):
    result, _, _ = published
    committed = read_result("scaling", "published")
    for key in ("predicted", "parameters", "errors"):
        for name, value in result[key].items():
            assert committed[key][name] == pytest.approx(value, rel=1e-4, abs=1e-5)
    for key, row in (("extrapolation", "worst_beyond"), ("size_alone", "part_explained")):
        assert committed[key][row] == pytest.approx(result[key][row], rel=1e-3)
    for ours, theirs in zip(result["rivals"], committed["rivals"], strict=True):
        assert ours["worst"] == pytest.approx(theirs["worst"], rel=1e-2)


def test_deviations_are_those_of_data_drawn_again():
    x, random, reading = np.arange(1.0, 9.0), np.random.default_rng(0), 0.02
    truth, starts = 3 * x + 2, {"a": 3.0, "b": 2.0}
    fits = []
    for _ in range(200):
        noisy = truth * (1 + reading * random.standard_normal(len(x)))
        fits.append(fit(lambda v: v["a"] * x + v["b"], noisy, starts))
    exact = fit(lambda v: v["a"] * x + v["b"], truth, starts)
    errors = exact.deviations(np.full(len(x), reading))
    for name in starts:
        drawn = np.std([fitted.values[name] for fitted in fits])
        assert errors[name] == pytest.approx(drawn, rel=0.2)
    by_errors = np.mean([fitted.deviations()["a"] for fitted in fits])
    assert by_errors == pytest.approx(errors["a"], rel=0.1)


def test_two_values_that_do_the_same_are_correlated():
    x = np.arange(1.0, 9.0)
    fitted = fit(lambda v: v["a"] * x + v["b"] * x**1.01, 3 * x, {"a": 1.0, "b": 2.0})
    assert fitted.correlation("a", "b") < -0.99
