"""Ranks sleep and exchange as they are asked to, and none of them is left."""

import io
import json
import statistics
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from experiments.emulation import rank, ranks
from experiments.emulation.rank import Sleeper
from model.errors import InputError

LEAVES = [{"shape": [3], "ready": 0.5}, {"shape": [5], "ready": 1.0}]
CASE = {
    "kind": "step", "leaves": LEAVES, "seconds": 0.06, "backward": 0.5,
    "windows": 3, "parallel": {"compression": "fp16"}, "turns": 2,
}  # fmt: skip


def test_a_sleeper_hands_over_its_gradients_at_their_moments():
    """What else takes time delays nothing."""
    sleeper = Sleeper(LEAVES, seconds=0.2, backward=0.5)
    moments = []
    for leaf in sleeper.split_leaves():
        leaf.register_post_accumulate_grad_hook(lambda _: moments.append(time.perf_counter()))
    begun = time.perf_counter() - 0.05
    sleeper.begin(begun)
    nats, _ = sleeper()
    nats.backward()
    for moment, due in zip(moments, (0.15, 0.2), strict=True):
        assert moment - begun >= due
    assert sleeper.late >= 0
    assert sleeper.due == pytest.approx(begun + 0.2)
    assert [leaf.grad.shape for leaf in sleeper.leaves] == [(3,), (5,)]
    assert sleeper.leaves[1].grad.equal(sleeper.gradients[1])


def test_a_rank_answers_every_request_with_the_turns_of_each_case(monkeypatch, capsys):
    """One rank, which exchanges with nobody: what is left is the protocol, and the windows."""
    requests = [{"ranks": 1, "port": 1, "cases": [CASE, {**CASE, "windows": 1, "turns": 1}]}]
    requests.append({"ranks": 0, "port": 1, "cases": [CASE]})  # of others
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    monkeypatch.setattr(rank, "WARM_UP", 1)
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    rank.main()
    (answer,) = capsys.readouterr().out.splitlines()
    three, one = json.loads(answer)
    assert (len(three), len(one)) == (2, 1)
    assert statistics.median(turn["seconds"] for turn in three) >= 3 * 0.06
    assert one[0]["seconds"] >= 0.06
    assert all(turn["late"] >= 0 == turn["sent_bytes"] for turn in three)


class Laid:
    """A namespace that is not there."""

    number = 0
    address = "127.0.0.1"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, InputError])
def test_no_rank_is_left(monkeypatch, error):
    left = []

    @contextmanager
    def laid(count, rate):
        try:
            yield [Laid()] * count
        finally:
            left.append(count)

    monkeypatch.setattr(ranks, "nodes", laid)
    monkeypatch.setattr(
        ranks, "start", lambda *_: subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    )
    with pytest.raises(error), ranks.emulated_nodes(2, "1mbit") as found:  # noqa: PT012
        processes = found.processes
        raise error
    assert [process.returncode for process in processes] == [-9, -9]
    assert left == [2]


def test_a_rank_that_is_gone_is_one_line(monkeypatch):
    gone = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    monkeypatch.setattr(ranks, "start", lambda *_: subprocess.Popen(["true"], **gone))
    with closing(ranks.Ranks([Laid()], "1mbit")) as found:
        found.processes[0].wait()
        with pytest.raises(InputError, match="a rank failed"):
            found.take([], 1)
