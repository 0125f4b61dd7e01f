"""scripts/plan.py and the regression behind it, as a user meets them."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from configs.command import parse
from configs.toml_file import read_toml
from experiments.scaling import regressed
from model.errors import InputError
from model.files.storage import read_json
from model.language_model import ModelConfig
from scaling.answers import lines
from scaling.fitting.comparison import regression_answers
from scaling.fitting.regression import LINEAR, MeasuredRun, read_runs, regress
from scaling.hardware import ClusterConfig
from scaling.memory import MemoryModel
from scaling.planner import PlanOptions, make_plan
from scaling.planning import Job, Plan
from scaling.step_time import Synchronisation
from scaling.workload import Workload
from tests.scaling.conftest import PIECES
from tests.support.runs import ROOT, assert_refused, run

CLUSTER = ROOT / "configs/clusters/dgx1v_infiniband.toml"
FIXTURE = ROOT / "tests/fixtures/v1/run"
ISSUE = ("--model", "4096", "--cluster", str(CLUSTER), "--characters", "38.3e9")


def planned(*arguments):
    return make_plan(parse(PlanOptions, arguments=list(map(str, arguments))))


def test_the_command_answers_what_it_is_asked(tmp_path):
    process = run("scripts/plan.py", *ISSUE, "--output", tmp_path / "plan.json")
    assert process.returncode == 0, process.stderr
    result = read_json(tmp_path / "plan.json")
    assert result["gpus"] == 128
    assert result["efficiency"] == pytest.approx(0.85, abs=0.01)
    assert result["step_seconds"] == pytest.approx(0.95, abs=0.01)
    assert result["hours"] == pytest.approx(38.3e9 / result["characters_per_second"] / 3600)
    assert result["groups"][0]["fits"]
    assert result["groups"][0]["largest_lanes_per_gpu"] >= 256
    assert result["tokens_per_gpu_for_90_percent"] > result["lemma_tokens_for_90_percent"] > 65_536
    assert result["spot"]["dollars"] < result["on_demand"]["dollars"]
    assert result["spot"]["checkpoint_interval_seconds"] < 600
    for words in ("efficiency", "largest batch", "tokens for 90 %", "spot", "dollars"):
        assert words in process.stdout


def test_pieces_of_words_are_more_characters_than_tokens(pieces):
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
    assert of_pieces["hours"] == pytest.approx(38.3e9 / speed / 3600)
    more = PIECES - 256  # tokens: of each a vector of E, one of H and a bias
    assert of_pieces["parameters"] - of_bytes["parameters"] == more * (128 + 1024 + 1)


def test_pieces_of_words_without_a_corpus_are_refused(tmp_path):
    (tmp_path / "run.toml").write_text("[model]\nvocabulary_size = 4096\n")
    with pytest.raises(InputError, match=r"size is 4096, so tokens are pieces .* with --corpus$"):
        planned("--model", tmp_path / "run.toml", "--cluster", CLUSTER, "--gpus", 1)


def test_options_change_what_they_should():
    base = planned(*ISSUE)
    overlapped = planned(*ISSUE, "--exchange", "overlapped")
    assert overlapped["efficiency"] > base["efficiency"]
    assert planned(*ISSUE, "--gradients", "fp32")["efficiency"] < base["efficiency"]
    seldom = planned(*ISSUE, "--windows-per-step", 4)
    assert seldom["step_seconds"] < 4 * base["step_seconds"]
    assert seldom["steps"] == pytest.approx(base["steps"] / 4)
    often = planned(*ISSUE, "--preemptions-per-day", 24)
    assert often["spot"]["hours_between_interruptions"] == 1 / 16
    assert often["on_demand"] == base["on_demand"]
    never = planned(*ISSUE, "--preemptions-per-day", 1e7)
    assert never["spot"]["hours"] is never["spot"]["dollars"] is None
    assert "never ends" in "\n".join(lines(never))
    json.dumps(never, allow_nan=False)
    many = planned(*ISSUE, "--gpus", 100_000)  # one of so many nodes is always being taken away
    assert many["spot"]["hours"] is many["spot"]["slowdown"] is None
    assert many["on_demand"]["hours"] < 1
    bound = planned(*ISSUE, "--efficiency", 0.9)
    assert bound["most_gpus_with_these_lanes_each"] == 8
    assert "TOO MANY" in "\n".join(lines(planned(*ISSUE, "--lanes-per-gpu", 4096)))


def test_a_runs_config_says_model_lanes_and_window():
    of_config = planned("--model", ROOT / "configs/paper_8192.toml", *ISSUE[2:])
    assert of_config["hidden_size"] == 8192
    assert of_config["lanes"] == 96 * 128
    assert of_config["tokens_per_gpu"] == 96 * 256


def test_a_lab_without_prices():
    cluster = ROOT / "configs/clusters/mixed_lab.toml"
    result = planned("--model", 1024, "--cluster", cluster, "--lanes-per-gpu", 64)
    assert result["spot"] is None
    assert result["on_demand"]["dollars"] is None
    fast, *_, slow = result["groups"]
    assert fast["lanes_per_gpu"] > slow["lanes_per_gpu"]
    assert "no price" in "\n".join(lines(result))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "big"), "neither a number of units nor"),
        (("--model", "0"), "model.hidden_size"),
        (("--model", "nowhere.toml"), "no such config"),
        (("--cluster", "nowhere.toml"), "no such config$"),
        (("--cluster", "h200_node"), r"no such config; did you mean .*/h200_nodes\.toml\?$"),
        (("--characters", "0"), "characters"),
        (("--characters", "1e308"), "--characters is 1e[+]308; it must be above zero and at most"),
        (("--preemptions-per-day", "1e-320"), "--preemptions-per-day is .*; it must be at least"),
        (("--gpus", "-8"), "gpus"),
        (("--gpus", "0"), "gpus"),
        (("--gpus", "1" + "0" * 400), "--gpus is too large a number"),
        (("--lanes-per-gpu", "1" + "0" * 400), "--lanes-per-gpu is too large a number"),
        (("--model", "9" * 5000), "neither a number of units nor"),
        (("--lanes-per-gpu", "0"), "--lanes-per-gpu is 0"),
        (("--windows-per-step", "0"), "at least 1"),
        (("--efficiency", "1"), "--efficiency"),
        (("--headroom", "-1"), "--headroom"),
        (("--preemptions-per-day", "0"), "--preemptions-per-day"),
        (("--measured", "nowhere.json"), "no such file or run directory"),
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
        ("gpus = 8", "gpus = 0", "nodes.gpus is 0; it must be at least 1"),
        ("gpus = 8", 'gpus = "many"', "it must be a whole number"),
        ("2.97e9", "-1", "network.bytes_per_second is -1; it must be at least 1 and"),
        ("[network]", '[network]\nring = "tree"', "ring is 'tree'; it must be one of"),
        ("[network]", "[net]", "unknown key net"),
        ("0.0265", "-0.1", "overhead_seconds is -0.1; it must be at least zero"),
        ("[[nodes]]", "[nodes]", "nodes is .*; it must be a list, each a section"),
        ("42e12", "1e308", r"nodes.operations_per_second is 1e\+308; it must be at least"),
        ("42e12", "1e-308", "nodes.operations_per_second is 1e-308"),
        ("60e9", "1e-308", "nodes.link_bytes_per_second is 1e-308"),
        ("2.97e9", "1e-308", "network.bytes_per_second is 1e-308"),
        ("2.97e9", "1e308", "network.bytes_per_second is"),
        ("16.9e9", "1e308", "nodes.memory_bytes is"),
        ("count = 16", f"count = {2**62}", "nodes.count is"),
        ("gpus = 8", f"gpus = {2**62}", "nodes.gpus is"),
        ("gpu_hour = 3.0", "gpu_hour = 1e308", "nodes.dollars_per_gpu_hour is"),
        ("gpu_hour = 1.0", "gpu_hour = 1e-320", "nodes.spot_dollars_per_gpu_hour is"),
        ("[network]", "[network]\nlatency_seconds = 1e308", "network.latency_seconds is"),
        ("2000.0", "1e-320", "reliability.hours_between_failures is"),
        ("24.0", "1e308", "reliability.spot_hours_between_preemptions is"),
        ("120.0", "1e308", "reliability.restart_seconds is"),
        ("per_second = 1e9", "per_second = 1e-308", "reliability.checkpoint_bytes_per_second is"),
        ("0.0265", "1e308", "overhead_seconds is"),
        ("prices_as_of", "jitter = 1e308\nprices_as_of", r"cluster.toml: jitter is 1e\+308"),
    ],
)
def test_a_cluster_that_is_none_is_refused(tmp_path, old, new, words):
    text = CLUSTER.read_text()
    assert old in text
    (tmp_path / "cluster.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=words):
        planned("--model", 64, "--cluster", tmp_path / "cluster.toml")


def test_the_search_for_efficiency_ends_in_a_cluster_of_any_size(tmp_path):
    text = CLUSTER.read_text().replace("count = 16", f"count = {10**15}")
    (tmp_path / "cluster.toml").write_text(text)
    vast = planned(*ISSUE, "--cluster", tmp_path / "cluster.toml", "--gpus", 128)
    key = "most_gpus_with_these_lanes_each"
    assert vast[key] == planned(*ISSUE)[key]


def test_several_nodes_need_a_network(tmp_path):
    text = CLUSTER.read_text()
    start, end = text.index("[network]"), text.index("[reliability]")
    (tmp_path / "cluster.toml").write_text(text[:start] + text[end:])
    with pytest.raises(InputError, match="needs a \\[network\\]"):
        planned("--model", 64, "--cluster", tmp_path / "cluster.toml")


def test_what_is_refused_ends_in_one_line():
    assert_refused(run("scripts/plan.py", "--model", "big", "--cluster", CLUSTER), "--model big")


def made_run(random, *, noise=0.0):
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
    runs = [made_run(random) for _ in range(12)]
    best = regress(runs)[0]
    assert best.kind == LINEAR
    assert best.mean_absolute_percentage_error < 1e-9
    unseen = made_run(random)
    assert best.seconds(unseen) == pytest.approx(unseen.seconds)


def test_the_error_is_that_of_runs_left_out():
    random = np.random.default_rng(1)
    runs = [made_run(random, noise=0.1) for _ in range(9)]
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


def test_a_regression_beside_the_model(tmp_path):
    random = np.random.default_rng(2)
    rows = [vars(made_run(random, noise=0.05)) for _ in range(8)]
    (tmp_path / "runs.json").write_text(json.dumps(rows))
    result = planned(*ISSUE, "--measured", tmp_path / "runs.json", FIXTURE)
    regression = result["regression"]
    assert regression["runs"] == 9
    assert set(regression["kinds"]) == {"linear", "power law", "svr"}
    assert "gpus" in regression["outside_of_what_was_measured"]
    assert "beyond what was measured" in "\n".join(lines(result))


def test_a_run_directory_is_a_measured_run(tmp_path):
    (measured,) = read_runs(FIXTURE, operations_per_second=1e9)
    tokens = 4 * 32
    assert measured.seconds == pytest.approx(tokens / 13339.7)  # the row after the first
    assert (measured.gpus, measured.bytes) == (1, 0.0)
    products = 5 * 8 * (4 + 8) + 8 * 256
    assert measured.operations == 6 * products * tokens
    shutil.copytree(FIXTURE, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    first, second = metrics.read_text().splitlines()[:2]
    metrics.write_text(f"{first}\n")
    with pytest.raises(InputError, match="too few rows"):
        read_runs(tmp_path / "run", 1e9)
    backwards = json.dumps({**json.loads(second), "characters": 1, "step": 20})
    for row in (
        '{"step": 20}',
        second.replace("13339.7", '"fast"'),
        second.replace("13339.7", "0"),
    ):
        metrics.write_text(f"{first}\n{row}\n")
        with pytest.raises(InputError, match=r"metrics\.jsonl: a row has no speed"):
            read_runs(tmp_path / "run", 1e9)
    metrics.write_text(f"{first}\n{backwards}\n")
    with pytest.raises(InputError, match=r"seconds is -"):
        read_runs(tmp_path / "run", 1e9)


def test_a_run_on_subwords_is_measured_by_its_characters(tmp_path):
    """A token stands for several; speeds are in characters."""
    shutil.copytree(FIXTURE, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    rows = [
        {"step": step, "characters": 450 * step, "characters_per_second": 900.0}
        for step in (10, 20, 30)
    ]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (measured,) = read_runs(tmp_path / "run", 1e9)
    assert measured.seconds == pytest.approx(0.5)


MADE = vars(made_run(np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "0 measured runs are too few"),
        ("{}", "expected a list"),
        ("[1]", "run 0: expected an object with operations"),
        ("no", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (f"[{'1' * 5000}]", "not JSON"),
        (json.dumps([{**MADE, "gpus": 10**400}]), "gpus is 1000"),
        (json.dumps([{**MADE, "seconds": 0}]), "seconds is 0"),
        (json.dumps([{**MADE, "seconds": 1e-320}]), "run 0: seconds is 1e-320; .* at least 1e-09"),
        (json.dumps([{**MADE, "operations_per_second": 1e-29}]), "operations_per_second is"),
    ],
)
def test_measured_runs_that_are_none(tmp_path, content, words):
    (tmp_path / "runs.json").write_text(content)
    with pytest.raises(InputError, match=words):
        planned(*ISSUE, "--measured", tmp_path / "runs.json")


def test_runs_that_hardly_differ_predict_finite_seconds():
    rows = [{**MADE, "operations": 1e12 * (1 + n * 1e-9)} for n in range(6)]
    runs = [MeasuredRun(**{**row, "seconds": 10.0 ** (3 * n - 8)}) for n, row in enumerate(rows)]
    wanted = MeasuredRun(**{**MADE, "operations": 1e20})
    for kind in regress(runs):
        assert np.isfinite([kind.seconds(wanted), kind.mean_absolute_percentage_error]).all()


def test_recurrences_of_every_size_are_runs():
    runs = regressed.runs_of(regressed.MEASURED)
    assert len(runs) >= 10
    assert all(run.gpus == 1 and run.seconds > 0 for run in runs)
    assert min(kind.mean_absolute_percentage_error for kind in regress(runs)) < 0.5


MIXED = ROOT / "configs/clusters/mixed_lab.toml"


@pytest.mark.parametrize("windows", [1, 4])
def test_the_lemma_is_of_the_mean_gpu_and_of_the_bytes_of_a_window(windows):
    result = planned("--model", 1024, "--cluster", MIXED, "--windows-per-step", windows)
    mean = (2 * 55e12 + 8 * 24e12 + 8 * 18e12) / 18
    expected = 2 / windows * mean * 0.9 / (3 * 1.15e9 * 0.1)
    assert result["lemma_tokens_for_90_percent"] == pytest.approx(expected)


@pytest.mark.parametrize("ring", ["gpus", "nodes"])
@pytest.mark.parametrize("link", ["3e9", "600e9"])
def test_the_lemma_is_the_plan_of_many_gpus_also_where_links_are_slow(tmp_path, link, ring):
    text = CLUSTER.read_text().replace("60e9", link).replace("0.0265", "0.0")
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(text.replace("2.97e9", f'50e9\nring = "{ring}"'))
    given = planned("--model", 4096, "--cluster", cluster, "--gpus", 80_000)
    needed, lemma = (
        given[key] for key in ("tokens_per_gpu_for_90_percent", "lemma_tokens_for_90_percent")
    )
    assert lemma == pytest.approx(needed, rel=2e-3)  # of 4,096 units, some weights multiply nothing


def test_lanes_fit_if_they_leave_the_headroom():
    (group,) = planned(*ISSUE, "--headroom", 0)["groups"]
    most = ("--lanes-per-gpu", group["largest_lanes_per_gpu"])
    for headroom, fits in ((0, True), (0.1, False)):
        (group,) = planned(*ISSUE, *most, "--headroom", headroom)["groups"]
        assert group["fits"] is fits


def test_what_decides_memory_reaches_it():
    result = planned(*ISSUE, "--precision", "fp32", "--lane-groups", 4, "--window", 128)
    model = ModelConfig(hidden_size=4096)
    memory = MemoryModel(model=model, window=128, precision="fp32", lane_groups=4)
    assert result["groups"][0]["memory_bytes"] == memory.needed(256).total
    assert result["tokens_per_gpu"] == 256 * 128


def test_even_shares_are_the_same_for_every_gpu():
    result = planned("--model", 1024, "--cluster", MIXED, "--lanes-per-gpu", 64, "--shares", "even")
    assert {group["lanes_per_gpu"] for group in result["groups"]} == {64}


def test_the_lanes_of_a_runs_config_are_dealt_to_all_gpus_and_rounded_up():
    of_config = ("--model", FIXTURE / "config.toml", "--cluster", CLUSTER)  # it has 4 lanes
    assert [planned(*of_config, "--gpus", gpus)["lanes"] for gpus in (3, 4)] == [3 * 2, 4]
    with pytest.raises(InputError, match=r"data\.lanes is 4, fewer than 5 GPUs"):
        planned(*of_config, "--gpus", 5)


def test_a_regression_predicts_a_whole_step_of_one_rank():
    how = Synchronisation(windows=3, bytes_per_parameter=4)
    job = Job(
        model=ModelConfig(hidden_size=64), characters=1e9, gpus=4, lanes_per_gpu=8, window=16,
        how=how,
    )  # fmt: skip
    asked = []
    kind = SimpleNamespace(
        kind=LINEAR, seconds=asked.append, mean_absolute_percentage_error=0.0,
        mean_absolute_error_seconds=0.0,
    )  # fmt: skip
    plan = Plan(read_toml(CLUSTER, ClusterConfig), job)
    regression_answers(plan, [made_run(np.random.default_rng(0))], [kind])
    (wanted,) = asked
    workload = Workload.of(job.model)
    assert wanted.operations == workload.operations_per_token * 8 * 16 * 3
    assert wanted.bytes == 2 * 3 / 4 * 4 * workload.parameters  # a ring of four, in fp32
    assert (wanted.gpus, wanted.operations_per_second) == (4, 42e12)


def test_a_run_of_several_ranks_and_windows_is_measured_by_a_ranks_step(tmp_path):
    (alone,) = read_runs(FIXTURE, 1e9)
    shutil.copytree(FIXTURE, tmp_path / "run")
    config, metrics = (tmp_path / "run" / name for name in ("config.toml", "metrics.jsonl"))
    config.write_text(f"{config.read_text()}\n[parallel]\nwindows_per_step = 3\n")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    several = [{**row, "rank_characters_per_second": [1.0, 2.0]} for row in rows]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in several))
    (measured,) = read_runs(tmp_path / "run", 1e9)
    assert (measured.gpus, measured.operations) == (2, alone.operations * 3 / 2)
