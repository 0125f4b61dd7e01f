"""Step times predicted by regression on measured runs."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from configs.command import parse
from configs.toml_file import read_toml
from experiments.scaling.regression import (
    LINEAR,
    MeasuredRun,
    measured_run,
    planned_run,
    regress,
)
from model.errors import InputError
from model.files.storage import read_json
from scaling.hardware import ClusterConfig
from scaling.planner import PlanOptions, read_job
from scaling.planning import Plan
from scaling.workload import Workload
from tests.support.runs import ROOT, assert_refused, done, run

CLUSTER = ROOT / "configs/clusters/dgx1v_infiniband.toml"
FIXTURE = ROOT / "tests/fixtures/v1/run"
ISSUE = ("--model", "4096", "--cluster", str(CLUSTER), "--characters", "38.3e9")


def random_run(random, *, noise=0.0):
    """Return a run whose seconds are linear in the features, but for noise."""
    operations, gpus = random.uniform(1e12, 9e12), int(random.integers(2, 16))
    size = random.uniform(1e6, 9e6)
    seconds = operations / 1e12 * 0.1 + size / 1e7 + gpus / 100
    seconds *= 1 + noise * random.standard_normal()
    return MeasuredRun(
        operations=operations, operations_per_second=1e12, bytes=size, gpus=gpus, seconds=seconds
    )


def test_regression_finds_what_is_linear():
    random = np.random.default_rng(0)
    runs = [random_run(random) for _ in range(12)]
    best = regress(runs)[0]
    assert best.kind == LINEAR
    assert best.mean_absolute_percentage_error < 1e-9
    unseen = random_run(random)
    assert best.seconds(unseen) == pytest.approx(unseen.seconds)


def test_the_error_is_that_of_runs_left_out():
    random = np.random.default_rng(1)
    runs = [random_run(random, noise=0.1) for _ in range(9)]
    (linear,) = (kind for kind in regress(runs) if kind.kind == LINEAR)
    x = np.array([[1.0, *run.features] for run in runs])
    y = np.array([run.seconds for run in runs])
    errors = []
    for number in range(len(runs)):
        rest = np.arange(len(runs)) != number
        weights, *_ = np.linalg.lstsq(x[rest] / x.max(0), y[rest])
        errors.append(abs(x[number] / x.max(0) @ weights / y[number] - 1))
    assert linear.mean_absolute_percentage_error == pytest.approx(np.mean(errors), rel=1e-6)
    assert linear.mean_absolute_error_seconds == pytest.approx(np.mean(errors * y), rel=1e-6)
    assert linear.mean_absolute_percentage_error > 0.03


RUN = vars(random_run(np.random.default_rng(0)))


def test_runs_that_hardly_differ_predict_finite_seconds():
    rows = [{**RUN, "operations": 1e12 * (1 + n * 1e-9)} for n in range(6)]
    runs = [MeasuredRun(**{**row, "seconds": 10.0 ** (3 * n - 8)}) for n, row in enumerate(rows)]
    large = MeasuredRun(**{**RUN, "operations": 1e20})
    for kind in regress(runs):
        assert np.isfinite([kind.seconds(large), kind.mean_absolute_percentage_error]).all()


def copy_run(folder, rows=None, config=""):
    """Copy a run; rows: of its metrics, instead of its own; config: lines for its end."""
    shutil.copytree(FIXTURE, folder)
    if rows is not None:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with (folder / "config.toml").open("a") as file:
        file.write(config)
    return folder


FIRST, SECOND = (json.loads(row) for row in (FIXTURE / "metrics.jsonl").read_text().split("\n")[:2])


def test_a_plan_is_also_predicted_from_runs(tmp_path):
    rates = (1e4, 2e4, 3e4, 5e4, 7e4, 9e4)
    rows = [[FIRST, {**SECOND, "characters_per_second": rate}] for rate in rates]
    folders = [copy_run(tmp_path / str(n), of_run) for n, of_run in enumerate(rows)]
    output = tmp_path / "plan.json"
    process = done(run("scripts/plan.py", *ISSUE, "--measured", *folders, "--output", output))
    regression = read_json(output)["regression"]
    assert regression["runs"] == 6
    assert set(regression["kinds"]) == {"linear", "power law", "svr"}
    assert "gpus" in regression["outside_of_what_was_measured"]
    assert "beyond what was measured in operations_over_speed, bytes, gpus" in process.stdout
    assert "by power law" in process.stdout


@pytest.mark.parametrize(
    ("folder", "words"),
    [("nowhere", "nowhere: no such run directory"), (FIXTURE, "1 measured runs are too few")],
)
def test_runs_that_show_nothing_are_refused(folder, words):
    assert_refused(run("scripts/plan.py", *ISSUE, "--measured", folder), words)


def test_a_run_directory_is_a_measured_run(tmp_path):
    run = measured_run(FIXTURE, operations_per_second=1e9)
    tokens = 4 * 32
    assert run.seconds == pytest.approx(tokens / 13339.7)  # the row after the first
    assert (run.gpus, run.bytes) == (1, 0.0)
    products = 5 * 8 * (4 + 8) + 8 * 256
    assert run.operations == 6 * products * tokens


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([FIRST], "too few rows"),
        ([FIRST, {"step": 20}], r"metrics\.jsonl: a row has no speed"),
        (
            [FIRST, {**SECOND, "characters_per_second": "fast"}],
            r"metrics\.jsonl: a row has no speed",
        ),
        ([FIRST, {**SECOND, "characters_per_second": 0}], "a row has no speed"),
        ([FIRST, {**SECOND, "characters": 1}], r"metrics\.jsonl: impossible steps of -"),
    ],
)
def test_rows_that_show_no_step_are_refused(tmp_path, rows, words):
    with pytest.raises(InputError, match=words):
        measured_run(copy_run(tmp_path / "run", rows), 1e9)


def test_a_run_on_subwords_is_measured_by_its_characters(tmp_path):
    """A token stands for several; speeds are in characters."""
    rows = [
        {"step": step, "characters": 450 * step, "characters_per_second": 900.0}
        for step in (10, 20, 30)
    ]
    assert measured_run(copy_run(tmp_path / "run", rows), 1e9).seconds == pytest.approx(0.5)


def test_a_run_of_several_ranks_and_windows_is_measured_by_a_ranks_step(tmp_path):
    rows = [{**row, "rank_characters_per_second": [1.0, 2.0]} for row in (FIRST, SECOND)]
    folder = copy_run(tmp_path / "run", rows, "\n[parallel]\nwindows_per_step = 3\n")
    run, alone = measured_run(folder, 1e9), measured_run(FIXTURE, 1e9)
    assert (run.gpus, run.operations) == (2, alone.operations * 3 / 2)


def test_a_regression_predicts_a_whole_step_of_one_rank():
    job, text = read_job(parse(PlanOptions, arguments=ISSUE))
    parallel = replace(job.parallel, windows_per_step=3, compression="none")
    plan = Plan(read_toml(CLUSTER, ClusterConfig), replace(job, parallel=parallel), 4, text, 8)
    run, workload = planned_run(plan), Workload.of(job.model)
    assert run.operations == workload.operations_per_token * 8 * 256 * 3
    assert run.bytes == 2 * 3 / 4 * 4 * workload.parameters  # a ring of four, in fp32
    assert run.seconds == 3 * plan.step.seconds
    assert (run.gpus, run.operations_per_second) == (4, 42e12)
