"""The faults: what is read from launchers' words, and some of them made for real."""

import pytest

from experiments.elastic.cluster import Cluster
from experiments.elastic.faults import FAULTS
from experiments.emulation.network import Node, Unavailable, nodes
from model.files.storage import read_json
from tests.runs import assert_refused, run

START = "40,640 parameters; {} lanes on {} x cpu, float32; 1,000 steps (9 epochs) from step {}\n"


@pytest.fixture
def cluster(tmp_path):
    """A cluster whose launchers have said something."""
    cluster = Cluster([Node(0, "a", "va")], tmp_path, [], tmp_path / "metrics.jsonl")
    cluster.logs = [tmp_path / "00.log", tmp_path / "01.log"]
    for log in cluster.logs:
        log.write_text("")
    return cluster


def say(log, text):
    with open(log, "a") as file:
        file.write(text)


def test_a_recovery_is_a_start_and_a_step(cluster, monkeypatch):
    first, second = cluster.logs
    say(first, START.format(10, 4, 0) + "step      1  train\nstep   1,9\nstep     19  train\n")
    mark = cluster.mark()
    assert list(cluster._recoveries(mark, 0.0, None)) == []
    say(first, "step     20  train\n[rank 0] error: lost a peer: step\n")
    say(second, START.format(10, 2, 5))
    assert list(cluster._recoveries(mark, 0.0, None)) == []
    say(second, "writing to run\nstep      6  train\n")
    (recovery,) = cluster._recoveries(mark, 0.0, None)
    assert (recovery.ranks, recovery.resumed_from, recovery.reached) == (2, 5, 20)
    assert recovery.steps_lost == 15
    assert list(cluster._recoveries(mark, 0.0, 4)) == []
    assert cluster.starts() == 2


def test_the_last_step_is_that_of_the_last_whole_row(cluster):
    assert cluster.step() == 0
    cluster.metrics.write_text('{"step": 8, "x": 1}\n{"step": 9, "x": 2}\n{"step": 10, "x"')
    assert cluster.step() == 9


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_node_lost_and_back_and_a_link_down(tmp_path):
    try:
        with nodes(2, "100mbit"):
            pass
    except Unavailable as error:
        pytest.skip(f"no network namespaces here: {error}")
    names = ["a node lost (kill -9 of all on it)", "the node comes back", "a link down for good"]
    numbers = [str(number) for number, fault in enumerate(FAULTS) if fault.name in names]
    output = tmp_path / "faults.json"
    logs = ("--logs", tmp_path / "logs")
    process = run(
        *("-m", "experiments.elastic.run", "--only", *numbers, "--output", output, *logs),
        timeout=1500,
    )
    assert process.returncode == 0, process.stderr
    result = read_json(output)
    rows = {row["fault"]: row for row in result["faults"]}
    assert list(rows) == names
    for name, ranks, lost in zip(names, (2, 4, 2), (20, 0, 20), strict=True):
        assert rows[name]["ranks"] == ranks
        assert 0 <= rows[name]["steps_lost"] <= lost
    disturbed = result["largest_relative_difference_of_losses"]["disturbed"]
    first, *_ = disturbed.values()  # later the training itself lets roundings grow
    assert first < 2e-5


def test_nowhere_to_try_it_is_one_line(tmp_path):
    command = ("-m", "experiments.elastic.run", "--output", tmp_path / "x.json")
    assert_refused(run(*command, env={"PATH": ""}), "no network to try it on")
