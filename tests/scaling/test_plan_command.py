"""scripts/plan.py as a user runs it."""

from itertools import chain

import pytest

from configs.command import parse
from configs.options import read_toml
from experiments.scaling.calibration import calibrate
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from scaling.hardware import ClusterConfig, NodeConfig
from scaling.planner import PlanOptions, lines, make_plan
from tests.scaling.conftest import PIECES
from tests.support.runs import ROOT, assert_refused, done, run_ranks
from tests.support.trainers import ALONE
from training.runs.run_directory import read_rows

CLUSTER = ROOT / "configs/clusters/dgx1v_infiniband.toml"
MIXED = ROOT / "configs/clusters/mixed_lab.toml"
CLUSTERS = CLUSTER.parent
FIXTURE = ROOT / "tests/fixtures/v1/run"
ISSUE = ("--model", "4096", "--cluster", str(CLUSTER), "--characters", "38.3e9")


def planned(*arguments):
    return make_plan(parse(PlanOptions, arguments=list(map(str, arguments))))


def test_the_command_answers_what_it_is_asked(tmp_path, run_here):
    process = done(run_here("scripts/plan.py", *ISSUE, "--output", tmp_path / "plan.json"))
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


def test_the_table_has_a_row_for_every_number_of_gpus(tmp_path):
    result = planned(*ISSUE, "--gpus", 24)
    assert [row["gpus"] for row in result["table"]] == [1, 2, 4, 8, 16, 24, 32, 64, 128]
    for row in result["table"]:
        alone = planned(*ISSUE, "--gpus", row["gpus"])
        assert row == {key: alone[key] for key in row}
        assert f"{row['gpus']:>4}{row['lanes']:>10,}" in "\n".join(lines(result))
    assert "TOO MANY" in "\n".join(lines(planned(*ISSUE, "--lanes-per-gpu", 4096)))
    assert "dollars" not in "\n".join(lines(planned("--model", 1024, "--cluster", MIXED)))
    (tmp_path / "two.toml").write_text(
        MIXED.read_text().replace("RTX 2080 Ti 11 GB", "RTX 3090 24 GB")
    )
    said = lines(planned("--model", 1024, "--cluster", tmp_path / "two.toml"))
    assert [line[:18] for line in said if "lanes fit" in line] == [
        *("  RTX 4090 24 GB  ", "  RTX 3090 24 GB  ", "  RTX 3090 24 GB  ")
    ]  # also of two kinds of nodes with one device
    alone = lines(planned("--model", 1024, "--cluster", CLUSTERS / "cpu_avx512.toml"))
    assert any("family 25 model 17  1 x 256 lanes" in line for line in alone)
    few = planned("--model", FIXTURE / "config.toml", "--cluster", CLUSTER, "--gpus", 3)
    assert [row["gpus"] for row in few["table"]] == [1, 2, 3, 4]  # it has 4 lanes


def test_subwords_are_more_characters_than_tokens(pieces, tmp_path):
    config = ("--model", ROOT / "configs/cpu_subword_1024.toml", *ISSUE[2:])
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
    (tmp_path / "run.toml").write_text("[model]\nvocabulary_size = 4096\n")
    with pytest.raises(InputError, match=r"4096, so tokens are subwords; .* with --corpus$"):
        planned("--model", tmp_path / "run.toml", "--cluster", CLUSTER, "--gpus", 1)


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
        (("--model", "nowhere.toml"), "no such config"),
        (("--cluster", "h200_node"), r"no such config; did you mean .*/h200_nodes\.toml\?$"),
        (("--characters", "1e308"), "--characters is 1e[+]308; it must be above zero and at most"),
        (("--gpus", "1" + "0" * 400), "--gpus is too large a number"),
        (("--lanes-per-gpu", "0"), "--lanes-per-gpu is 0"),
    ],
)
def test_nonsense_is_refused(arguments, words):
    options = dict(zip(ISSUE[::2], ISSUE[1::2], strict=True)) | {arguments[0]: arguments[1]}
    with pytest.raises(InputError, match=words):
        planned(*chain.from_iterable(options.items()))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpus = 8", "gpu = 8", r"unknown key nodes\[0\].gpu; did you mean gpus"),
        ("gpus = 8\n", "", r"nodes\[0\].gpus is missing"),
        ("gpus = 8", "gpus = 0", "gpus is 0"),
        ("bytes_per_second = ", "bytes_per_second = -", "bytes_per_second is -"),
        ("[network]", '[network]\nring = "tree"', "network.ring is 'tree', but this key is closed"),
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


def test_closed_keys_of_a_cluster_may_keep_their_defaults(tmp_path):
    with_defaults = f"jitter = 0.0\n{CLUSTER.read_text()}".replace(
        "[network]", '[network]\nring = "gpus"\nlatency_seconds = 0'
    )
    (tmp_path / "cluster.toml").write_text(with_defaults)
    files = (CLUSTER, tmp_path / "cluster.toml")
    plain, kept = (planned("--model", 64, "--cluster", file) for file in files)
    assert plain["window"] == kept["window"]


def test_the_lanes_of_a_runs_config_are_divided_among_all_gpus_and_rounded_up_for_one():
    of_config = ("--model", FIXTURE / "config.toml", "--cluster", CLUSTER)  # it has 4 lanes
    plans = [planned(*of_config, "--gpus", gpus) for gpus in (3, 4)]
    assert [plan["lanes"] for plan in plans] == [4, 4]
    assert [plan["groups"][0]["lanes_per_gpu"] for plan in plans] == [2, 1]
    with pytest.raises(InputError, match=r"data\.lanes is 4, fewer than 5 GPUs"):
        planned(*of_config, "--gpus", 5)


def test_the_length_of_a_run_is_that_of_the_clock_that_training_uses():
    run = ("--model", FIXTURE / "config.toml", "--cluster", CLUSTER, "--gpus", 1)
    plans = planned(*run, "--corpus", FIXTURE.parent / "corpus")
    last = read_rows(FIXTURE / "metrics.jsonl")[-1]
    # The last windows of an epoch have less text, and the fixture ended before them.
    assert plans["steps"] == pytest.approx(last["step"], rel=0.03)
    in_steps = ("--model", ROOT / "configs/cpu_512.toml", "--cluster", CLUSTERS / "cpu_amx.toml")
    assert planned(*in_steps)["steps"] == 5400
    other_batch = planned(*in_steps, "--lanes-per-gpu", 256)
    assert (other_batch["lanes"], other_batch["steps"]) == (256, 5400)


def test_a_machine_is_measured_and_planned_for_and_so_is_an_all_reduce_by_size(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(calibrate(ALONE, lanes=4, sizes=(32, 64)))
    (node,) = read_toml(path, ClusterConfig).nodes
    assert [rate.units for rate in node.rates if rate.bits == 32] == [32, 64]
    assert node.launch_seconds > 0
    result = planned("--model", FIXTURE / "config.toml", "--cluster", path, "--characters", 1e6)
    assert result["hours"] > 0
    main, other = run_ranks(2, "-m", "tests.ranks.calibrating")
    assert (main.returncode, other.returncode) == (0, 0), main.stderr + other.stderr
    path = tmp_path / "mine.toml"
    path.write_text(main.stdout)
    cluster = read_toml(path, ClusterConfig)
    (node,) = cluster.nodes
    assert (node.gpus, len(node.link_messages)) == (2, 4)
    fabric = cluster.fabric(cluster.first_gpus(2), node.link_messages[0].bytes)
    assert fabric.link_bytes_per_second == pytest.approx(node.link_messages[0].bytes_per_second)
    assert planned("--model", 64, "--cluster", path)["efficiency"] < 1


def test_a_run_is_compared_with_its_plan(tmp_path, run_here):
    cluster = ROOT / "configs/clusters/cpu_avx512.toml"
    output = tmp_path / "out.json"
    words = ("--cluster", cluster, "--actual", FIXTURE, "--output", output)
    process = done(run_here("scripts/plan.py", *words))
    result = read_json(output)
    rows = [row["characters_per_second"] for row in read_rows(FIXTURE / "metrics.jsonl")[1:]]
    assert min(rows) <= result["actual_characters_per_second"] <= max(rows)
    assert result["actual_to_planned"] == pytest.approx(
        result["actual_characters_per_second"] / result["planned_characters_per_second"]
    )
    assert f"{result['actual_to_planned']:.2f} of the plan of cpu_avx512.toml" in process.stdout
    assert_refused(run_here("scripts/plan.py", "--actual", FIXTURE), "needs the --cluster")


def test_a_file_of_a_known_gpu_needs_only_its_name_and_number(run_here):
    result = planned("--model", 4096, "--cluster", CLUSTERS / "h100.toml")
    said = "\n".join(lines(result))
    assert "H100: not measured" in said
    assert "launch_seconds, window_seconds" in said
    (node,) = read_toml(CLUSTERS / "h100.toml", ClusterConfig).nodes
    assert (node.memory_bytes, node.memory_bytes_per_second) == (80e9, 3.35e12)
    (measured,) = read_toml(CLUSTERS / "h200.toml", ClusterConfig).nodes
    assert measured.of_sheet == []
    with pytest.raises(InputError, match="memory_bytes is missing; no data sheet of 'abacus'"):
        NodeConfig(device="abacus", gpus=1)
    assert_refused(run_here("scripts/plan.py", "--gpus", 3), "name a --model and a --cluster")
    for words in (("--actual", FIXTURE, "--gpus", 64), ("--calibrate", "x.toml", "--output", "x")):
        said = f"{words[2]} has no effect with {words[0]}; leave it out"
        assert_refused(run_here("scripts/plan.py", *words), said)
