"""scripts/plan.py as a user runs it, and the regression of step times."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from configs.command import parse
from configs.toml_file import read_toml
from model.errors import InputError
from model.files.storage import read_json
from scaling.hardware import ClusterConfig
from scaling.planner import PlanOptions, lines, make_plan, read_job
from scaling.planning import Plan
from scaling.regression import LINEAR, MeasuredRun, measured_run, planned_run, regress
from scaling.workload import Workload
from tests.scaling.conftest import PIECES
from tests.support.runs import ROOT, done, run, unread_stdout

CLUSTER = ROOT / "configs/clusters/dgx1v_infiniband.toml"
MIXED = ROOT / "configs/clusters/mixed_lab.toml"
FIXTURE = ROOT / "tests/fixtures/v1/run"
ISSUE = ("--model", "4096", "--cluster", str(CLUSTER), "--characters", "38.3e9")


def planned(*arguments):
    return make_plan(parse(PlanOptions, arguments=list(map(str, arguments))))


def test_the_command_answers_what_it_is_asked(tmp_path):
    process = done(run("scripts/plan.py", *ISSUE, "--output", tmp_path / "plan.json"))
    result = read_json(tmp_path / "plan.json")
    assert result["gpus"] == 128
    assert result["efficiency"] == pytest.approx(0.85, abs=0.01)
    assert result["step_seconds"] == pytest.approx(0.95, abs=0.01)
    seconds = 38.3e9 / result["characters_per_second"]
    assert result["training_hours"] == pytest.approx(seconds / 3600)
    assert result["gpu_hours"] == pytest.approx(128 * result["hours"])
    assert result["groups"][0]["fits"]
    assert result["groups"][0]["largest_lanes_per_gpu"] >= 256
    for words in ("efficiency", "largest batch", "GPU hours", "dollars", "assumed:"):
        assert words in process.stdout


def test_the_plan_is_written_even_if_nobody_reads_the_table(tmp_path, run_here):
    with unread_stdout():
        done(run_here("scripts/plan.py", *ISSUE, "--output", tmp_path / "plan.json"))
    assert read_json(tmp_path / "plan.json")["gpus"] == 128


def test_the_table_has_a_row_for_every_number_of_gpus():
    result = planned(*ISSUE, "--gpus", 24)
    assert [row["gpus"] for row in result["table"]] == [1, 2, 4, 8, 16, 24, 32, 64, 128]
    for row in result["table"]:
        alone = planned(*ISSUE, "--gpus", row["gpus"])
        assert row == {key: alone[key] for key in row}
        assert f"{row['gpus']:>4}{row['lanes']:>10,}" in "\n".join(lines(result))
    few = planned("--model", FIXTURE / "config.toml", "--cluster", CLUSTER, "--gpus", 3)
    assert [row["gpus"] for row in few["table"]] == [1, 2, 3, 4]  # it has 4 lanes


def test_subwords_are_more_characters_than_tokens(pieces):
    config = ("--model", ROOT / "configs/cpu_subword_1024.toml", "--cluster", CLUSTER)
    of_bytes, of_pieces = planned(*config), planned(*config, "--corpus", pieces)
    train = read_json(pieces / "meta.json")["splits"]["train"]
    each = train["bytes"] / train["tokens"]  # characters
    assert each > 1.2
    tokens = 128 * 64  # of a step
    assert of_bytes["steps"] == pytest.approx(38.3e9 / tokens)
    assert of_pieces["steps"] == pytest.approx(38.3e9 / tokens / each)
    speed = tokens * each / of_pieces["step_seconds"]
    assert of_pieces["characters_per_second"] == pytest.approx(speed)
    assert of_pieces["training_hours"] == pytest.approx(38.3e9 / speed / 3600)
    more = PIECES - 256  # tokens: of each a vector of E, one of H and a bias
    assert of_pieces["parameters"] - of_bytes["parameters"] == more * (128 + 1024 + 1)


def test_subwords_without_a_corpus_are_refused(tmp_path):
    (tmp_path / "run.toml").write_text("[model]\nvocabulary_size = 4096\n")
    with pytest.raises(InputError, match=r"4096, so tokens are subwords; .* with --corpus$"):
        planned("--model", tmp_path / "run.toml", "--cluster", CLUSTER, "--gpus", 1)


def test_options_change_what_they_should():
    assert "TOO MANY" in "\n".join(lines(planned(*ISSUE, "--lanes-per-gpu", 4096)))
    assert "dollars" not in "\n".join(lines(planned("--model", 1024, "--cluster", MIXED)))


def test_a_runs_config_sets_model_lanes_window_and_exchange():
    config = ROOT / "configs/paper_8192.toml"
    result = planned("--model", config, *ISSUE[2:])
    assert result["hidden_size"] == 8192
    assert result["lanes"] == 96 * 128
    assert "gradients in 16 bits, sent during backward" in result["assumptions"]
    whole = planned("--model", 8192, *ISSUE[2:])
    assert "gradients in 16 bits, sent in one piece after backward" in whole["assumptions"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "big"), "neither a number of units nor"),
        (("--model", "0"), "model.hidden_size"),
        (("--model", "nowhere.toml"), "no such config"),
        (("--cluster", "nowhere.toml"), "no such config$"),
        (("--cluster", "h200_node"), r"no such config; did you mean .*/h200_nodes\.toml\?$"),
        (("--characters", "1e308"), "--characters is 1e[+]308; it must be above zero and at most"),
        (("--measured", "nowhere"), "nowhere: no such run directory"),
        (("--measured", str(FIXTURE)), "1 measured runs are too few"),
        (("--gpus", "0"), "gpus"),
        (("--gpus", "1" + "0" * 400), "--gpus is too large a number"),
        (("--model", "9" * 5000), "neither a number of units nor"),
        (("--lanes-per-gpu", "0"), "--lanes-per-gpu is 0"),
    ],
)
def test_nonsense_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        planned(*ISSUE, *arguments)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpus = 8", "gpu = 8", r"unknown key nodes\[0\].gpu; did you mean gpus"),
        ("gpus = 8\n", "", r"nodes\[0\].gpus is missing"),
        ("gpus = 8", 'gpus = "many"', "it must be a whole number"),
        ("[network]", '[network]\nring = "tree"', "ring is 'tree'; it must be one of"),
        ("[network]", "[net]", "unknown key net"),
        ("[[nodes]]", "[nodes]", "nodes is .*; it must be a list, each a section"),
    ],
)
def test_a_cluster_that_is_none_is_refused(tmp_path, old, new, words):
    text = CLUSTER.read_text()
    assert old in text
    (tmp_path / "cluster.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=words):
        planned("--model", 64, "--cluster", tmp_path / "cluster.toml")


EVERY_NUMBER = (
    CLUSTER.read_text().replace(
        "\n[[nodes]]", "jitter = 0.0\ncheckpoint_bytes_per_second = 1e9\n[[nodes]]"
    )
    + "latency_seconds = 0.0\n"
)


@pytest.mark.parametrize("key", re.findall(r"^(\w+) = [\d.]", EVERY_NUMBER, re.MULTILINE))
@pytest.mark.parametrize("value", ["-0.1", "1e308", 10**30])
def test_every_number_of_a_cluster_has_its_bounds(tmp_path, key, value):
    path = tmp_path / "cluster.toml"
    path.write_text(re.sub(rf"(?m)^{key} = [\d.e-]+", f"{key} = {value}", EVERY_NUMBER))
    with pytest.raises(InputError, match=rf"cluster\.toml: .*{key} is "):
        planned("--model", 64, "--cluster", path)


@pytest.mark.parametrize(
    "key", re.findall(r"^(\w+_per_second|gpus) = ", EVERY_NUMBER, re.MULTILINE)
)
def test_speeds_and_counts_of_a_cluster_are_not_nothing(tmp_path, key):
    path = tmp_path / "cluster.toml"
    nothing = "0" if key == "gpus" else "1e-308"
    path.write_text(re.sub(rf"(?m)^{key} = [\d.e-]+", f"{key} = {nothing}", EVERY_NUMBER))
    with pytest.raises(InputError, match=rf"cluster\.toml: .*{key} is "):
        planned("--model", 64, "--cluster", path)


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


def test_the_lanes_of_a_runs_config_are_divided_among_all_gpus_and_rounded_up_for_one():
    of_config = ("--model", FIXTURE / "config.toml", "--cluster", CLUSTER)  # it has 4 lanes
    plans = [planned(*of_config, "--gpus", gpus) for gpus in (3, 4)]
    assert [plan["lanes"] for plan in plans] == [4, 4]
    assert [plan["groups"][0]["lanes_per_gpu"] for plan in plans] == [2, 1]
    with pytest.raises(InputError, match=r"data\.lanes is 4, fewer than 5 GPUs"):
        planned(*of_config, "--gpus", 5)


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
    result = planned(*ISSUE, "--measured", *folders)
    regression = result["regression"]
    assert regression["runs"] == 6
    assert set(regression["kinds"]) == {"linear", "power law", "svr"}
    assert "gpus" in regression["outside_of_what_was_measured"]
    said = "\n".join(lines(result))
    assert "beyond what was measured in operations_over_speed, bytes, gpus" in said
    assert "by power law" in said


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
