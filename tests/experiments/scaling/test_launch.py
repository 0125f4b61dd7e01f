"""How a launch that fails is ended, and what it says."""

import os
import sys

import pytest

from experiments.scaling.measuring.launch import reason_in, run_to_end


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("W1 elastic\n[rank 1] error: parallel.flat is no\nx.errors.ChildFailedError: \n",
         "parallel.flat is no"),
        ("[rank 0] error: lost a peer: gloo\n[rank1]: torch.OutOfMemoryError: CUDA\n",
         "torch.OutOfMemoryError: CUDA"),
        ("[rank 0] error: lost a peer: gloo\n"
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
         "  traceback : Signal 9 (SIGKILL) received by PID 7\n", "Signal 9 (SIGKILL) received by"),
        ("[rank 0] error: lost a peer: gloo\n", "lost a peer: gloo"),
        ("a warning\n[rank 0] error: the loss is not finite\n"
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n",
         "the loss is not finite"),
        ("main.py: error: no such corpus\n", "no such corpus"),
        ("error: optim.warmup is 2.0\n", "optim.warmup is 2.0"),
        ("Killed\n", "Killed"),
        ("srun: no such partition\n\n", "srun: no such partition"),
        ("[rank 1] error: lost a peer: wait timeout\n"
         "  traceback : Signal 15 (SIGTERM) received by PID 7\n", "lost a peer: wait timeout"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_failure_is_its_cause(said, reason):
    assert reason_in(said).startswith(reason)
    assert bool(reason_in(said)) == bool(reason)


def test_a_run_says_why_it_failed():
    assert run_to_end([sys.executable, "-S", "-c", "raise MemoryError('no room')"], 1) == (
        "MemoryError: no room"
    )
    assert run_to_end([sys.executable, "-S", "-c", "raise SystemExit(4)"], 1) == "exit code 4"
    assert run_to_end([sys.executable, "-S", "-c", ""], 1) is None


def test_a_run_that_takes_too_long_is_ended(tmp_path):
    (tmp_path / "run.sh").write_text(f"trap '' TERM\necho $$ > {tmp_path}/id\nsleep 60\n")
    words = ["sh", str(tmp_path / "run.sh")]
    assert run_to_end(words, 1, timeout=0.7, grace=0.3) == "took longer than 0.7 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)
