"""The published figure: what fits it, what does not, and what the constants are worth."""

from itertools import chain

import numpy as np
import pytest

from experiments.scaling.publication import explanation, puri, rivals
from model.files.storage import read_json
from scaling.fitting.least_squares import fit
from tests.support.runs import ROOT, assert_refused, run

POINTS = {  # read off the figure; kept here once more, so that the program's cannot drift
    "ethernet_4096": [7.7, 11.7, 23.5, 45.9, 92.6],
    "infiniband_4096": [7.7, 13.4, 27.4, 55.4, 109.1],
    "infiniband_8192": [7.9, 15.65, 31.3, 61.3, 120.9],
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return the result of the command, called as a file, and its folder."""
    folder = tmp_path_factory.mktemp("published")
    script = "experiments/scaling/published.py"
    process = run(script, "--output", folder / "published.json")
    assert process.returncode == 0, process.stderr
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
    kept = read_json(ROOT / "experiments/scaling/results/published.json")
    for key in ("predicted", "parameters"):
        for name, value in result[key].items():
            assert kept[key][name] == pytest.approx(value, rel=1e-4)


def test_as_a_module_it_is_the_same_command(tmp_path):
    process = run("-m", "experiments.scaling.published", "--output", tmp_path)
    assert_refused(process, "is a folder")


def test_the_search_ends_at_the_same_place_wherever_it_begins():
    best = explanation.fit_model()
    for name, factor in (("overhead_seconds", 5), ("infiniband_bytes_per_second_8192", 0.2)):
        starts = {**explanation.STARTS, name: explanation.STARTS[name] * factor}
        predicting = lambda values: explanation.predict(values, explanation.Constants())  # noqa: E731
        again = explanation.fit_curves(predicting, starts)
        assert again.values == pytest.approx(best.values, rel=1e-3)


def test_no_constant_is_chosen_for_a_curve():
    assert list(puri.SCALING) == list(POINTS)
    rows = explanation.sensitivity()
    assert all(row["worst"] <= 0.03 for row in rows if row["constant"] != "a ring of nodes")
    (nodes,) = (row for row in rows if row["constant"] == "a ring of nodes")
    assert nodes["worst"] > 0.05  # the flat ring is what the points say
    assert len(rows) >= 8


def test_eight_to_thirty_two_foretell_the_rest():
    result = explanation.extrapolation()
    errors = {name: np.abs(row).max() for name, row in result["errors_beyond"].items()}
    assert errors["ethernet_4096"] <= 0.015
    assert errors["infiniband_4096"] <= 0.027
    assert errors["infiniband_8192"] <= 0.036
    assert result["fitted_on"] == [8, 16, 32]


def test_size_does_not_explain_the_larger_model():
    facts = explanation.size_alone(explanation.fit_model().values)
    small, large = facts["scaling_at_128_without_overhead"].values()
    assert small == pytest.approx(large, rel=1e-3)
    assert 0.1 < facts["part_explained"] < 0.3
    assert facts["bandwidth_needed_over_that_of_4096"] > 4


def test_rivals_are_as_they_were_found_before():
    by_name = {row["name"]: row for row in rivals.rivals()}
    one_port = by_name["8,192 units over 1 x EDR, with a latency of their own"]
    assert one_port["worst"] == pytest.approx(0.023, abs=1e-3)
    assert one_port["parameters"]["latency"] == pytest.approx(3e-3, abs=6e-4)
    two = by_name["8,192 units over 2 x EDR, with a latency of their own"]
    assert two["parameters"]["latency"] == pytest.approx(20e-3, abs=1e-3)
    shared = by_name["one InfiniBand for both sizes"]
    assert shared["worst"] == pytest.approx(0.053, abs=1e-3)
    assert shared["parameters"]["overhead_seconds"] == pytest.approx(69e-3, abs=1e-3)
    slow = by_name["one InfiniBand, the computing of 8,192 units fitted"]
    assert slow["sustained_operations_per_second"] < 15e12  # of 42: rejected
    assert by_name["a latency for all curves"]["parameters"]["latency"] < 1e-6
    jitter = by_name["with stragglers"]
    assert jitter["jitter_deviation"] > 3 * jitter["parameters"]["jitter"]  # not identifiable
    assert jitter["worst"] == pytest.approx(0.0226, abs=1e-3)


def test_computing_is_the_time_of_an_epoch():
    assert pytest.approx(0.807, abs=5e-4) == puri.COMPUTING_SECONDS
    assert pytest.approx(0.838 * 7.7 / 8, abs=5e-4) == puri.computing_seconds(17.0)
    assert sum(map(len, puri.SCALING.values())) == 15


def test_a_fit_finds_what_made_the_data():
    x = np.arange(1.0, 9.0)
    made = fit(lambda v: v["a"] * x + v["b"], 3 * x + 0.5, {"a": 1.0, "b": 1.0})
    assert made.values == pytest.approx({"a": 3, "b": 0.5}, rel=1e-5)
    assert made.worst < 1e-6


def test_deviations_are_those_of_data_drawn_again():
    x, random, reading = np.arange(1.0, 9.0), np.random.default_rng(0), 0.02
    truth, starts = 3 * x + 2, {"a": 3.0, "b": 2.0}
    fits = []
    for _ in range(200):
        noisy = truth * (1 + reading * random.standard_normal(len(x)))
        fits.append(fit(lambda v: v["a"] * x + v["b"], noisy, starts))
    told = fit(lambda v: v["a"] * x + v["b"], truth, starts).deviations(np.full(len(x), reading))
    for name in starts:
        drawn = np.std([fitted.values[name] for fitted in fits])
        assert told[name] == pytest.approx(drawn, rel=0.2)
    by_errors = np.mean([fitted.deviations()["a"] for fitted in fits])
    assert by_errors == pytest.approx(told["a"], rel=0.1)


def test_two_values_that_do_the_same_are_correlated():
    x = np.arange(1.0, 9.0)
    fitted = fit(lambda v: v["a"] * x + v["b"] * x**1.01, 3 * x, {"a": 1.0, "b": 2.0})
    assert fitted.correlation("a", "b") < -0.99


def test_every_reading_has_its_error():
    deviations = explanation.reading_deviations()
    assert deviations == pytest.approx(0.3 / np.array(list(chain(*POINTS.values()))))
