"""Processes against threads: replicas leave each other alone; the arithmetic of speed."""

from dataclasses import replace

import pytest

from experiments.scaling import interpreter
from experiments.scaling.interpreter import Case, Options, cases_of, described, tables
from experiments.scaling.locking import replicas
from experiments.scaling.locking.figure import PUBLISHED, draw
from experiments.scaling.locking.replicas import Host, Work
from model.errors import InputError
from model.files.storage import read_json
from tests.runs import run

TINY = Work("reference", hidden_size=8, lanes=2, window=4, steps=3)


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_replicas_in_threads_learn_what_one_alone_learns(backend, small_split, monkeypatch):
    monkeypatch.setattr(replicas, "text", lambda: small_split)
    work, host, alone = replace(TINY, backend=backend), Host(), Host()
    assert host.train(work, 3) > 0
    alone.train(work, 1)
    (expected,) = alone.replicas.values()
    assert len(host.replicas) == 3
    for replica in host.replicas.values():
        assert replica.trainer.progress.step == work.steps
        assert replica.trainer.progress.characters == work.characters == 24
        theirs = expected.trainer.model.state_dict()
        for name, value in replica.trainer.model.state_dict().items():
            assert value.equal(theirs[name]), name
    host.train(work, 1)  # the first of them goes on
    steps = sorted(replica.trainer.progress.step for replica in host.replicas.values())
    assert steps == [3, 3, 6]


def test_cases_are_one_alone_and_more_both_ways():
    names = [case.name for case in cases_of(TINY, (1, 2, 4))]
    assert names == [
        "reference 8 alone",
        *(f"reference 8 {n} {how}" for n in (2, 4) for how in ("threads", "processes")),
    ]


class Pipe:
    """A host's end that remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def send(self, request):
        self.asked.append(request)

    def recv(self):
        return 0.5


def test_threads_are_asked_of_one_host_and_processes_of_many():
    pipes = [Pipe() for _ in range(4)]
    assert Case(TINY, "threads", 3).train(pipes) == 0.5
    assert [pipe.asked for pipe in pipes] == [[(TINY, 3)], [], [], []]
    pipes = [Pipe() for _ in range(4)]
    assert Case(TINY, "processes", 3).train(pipes) == 1.5
    assert [pipe.asked for pipe in pipes] == [[(TINY, 1)], [(TINY, 1)], [(TINY, 1)], []]


def study():
    """Return a study of two cores: threads take turns, processes do not until cores run out."""
    cases = []
    for backend in ("reference", "fused"):
        own = cases_of(replace(TINY, backend=backend), (2, 4))
        took = {1: [1.0, 2.0], 2: {"threads": [2.0, 4.0], "processes": [1.0, 2.0]}}
        took[4] = {"threads": [4.0, 8.0], "processes": [2.0, 4.0]}
        seconds = {
            case.name: took[case.replicas][case.how] if case.replicas > 1 else took[1]
            for case in own
        }
        cases += [described(case, seconds, [1.0, 1.2, 1.1]) for case in own]
    return {"cores": 2, "cases": cases}


def test_speed_is_that_of_all_replicas_over_one(tmp_path):
    by_key = {(c["backend"], c["how"], c["replicas"]): c for c in study()["cases"]}
    assert by_key["fused", "alone", 1]["speedup"] == 1
    assert by_key["fused", "threads", 2]["speedup"] == pytest.approx(1)
    assert by_key["fused", "processes", 4]["speedup"] == pytest.approx(2)
    assert by_key["fused", "processes", 4]["speedup_range"] == pytest.approx([2, 2])
    assert by_key["fused", "processes", 2]["characters_per_second"] == pytest.approx(48 / 1.5)
    text = tables(study())
    assert "| loop over bytes, 8 units | 16 | 1.00 (1.00 to 1.00; 1.1) | 2.00 (2.00 to" in text
    assert "2 cores: 4 replicas share them." in text
    draw(tmp_path / "figure.png", study())
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_published_points_are_those_that_are_known():
    threads = PUBLISHED["threads of one process (DataParallel)"]
    assert threads == {"8": "4.0 to 4.6"}
    assert PUBLISHED["a process per GPU, V100"]["8"] == "27.0"


@pytest.mark.parametrize("bad", [{"replicas": (0,)}, {"sizes": ()}, {"rounds": 0}])
def test_bad_numbers_are_refused(tmp_path, bad):
    with pytest.raises(InputError, match=f"--{next(iter(bad))}"):
        Options(output=tmp_path / "x.json", **bad)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_measures_threads_and_processes(tmp_path):
    output = tmp_path / "interpreter.json"
    small = ["--replicas", "2", "--sizes", "16", "--lanes", "4", "--window", "8"]
    small += ["--seconds", "0.05", "--rounds", "1"]
    process = run("-m", "experiments.scaling.interpreter", *small, "--output", output, timeout=500)
    assert process.returncode == 0, process.stderr
    result = read_json(output)
    assert [case["how"] for case in result["cases"]] == ["alone", *interpreter.HOWS] * 2
    assert all(case["cores_busy"] > 0 for case in result["cases"])
    assert output.with_suffix(".png").stat().st_size > 10_000
