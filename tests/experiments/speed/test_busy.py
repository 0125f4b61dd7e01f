"""The measurement next to busy processes: rounds, fractions of the fair speed, the command."""

import json
from contextlib import contextmanager

import pytest

from experiments.speed.benchmark.busy import BusyOptions, describe_turns, take_turns
from mlstm_sentiment.errors import InputError
from tests.support.runs import assert_refused, run


class Worker:
    """Makes 90 characters a second alone, and `when_busy` next to others."""

    def __init__(self, when_busy, others):
        self.when_busy, self.others = when_busy, others

    def send(self, seconds):
        assert seconds == 2.0

    def recv(self):
        return self.when_busy if self.others[-1] else 90.0


def test_a_share_is_of_what_a_fair_scheduler_would_give():
    others = []

    @contextmanager
    def busy_processes(count):
        others.append(count)
        yield

    workers = {"train": Worker(30.0, others), "train_without": Worker(3.0, others)}
    options = BusyOptions(rounds=2, seconds=2.0, work=("train",))
    result = describe_turns(take_turns(workers, options, busy_processes), options, cores=2)
    assert others == [0, 4, 0, 4]
    assert result["fair_share"] == pytest.approx(1 / 3)
    assert result["ratios"] == pytest.approx({"train": 1.0, "train_without": 0.1})
    assert result["chars_per_second"]["train busy"] == 30.0


def test_what_cannot_be_measured_is_refused():
    for words in ((), ("train", "train")):
        with pytest.raises(InputError, match="--work: name at least one kind, and none twice"):
            BusyOptions(work=words)
    assert_refused(run("scripts/benchmark.py", "busy", "--work", "nothing"), "--work nothing")
    assert_refused(run("scripts/benchmark.py", "busy", "--others", 0), "--others is 0")


@pytest.mark.slow
def test_the_command_measures_with_and_without(tmp_path):
    output = tmp_path / "busy.json"
    short = ("--rounds", 1, "--seconds", 0.2, "--others", 1, "--work", "train")
    done = run("scripts/benchmark.py", "busy", *short, "--output", output)
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text())["ratios"].keys() == {"train", "train_without"}
