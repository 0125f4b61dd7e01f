"""The line that says why a launched program failed is found among all that it wrote."""

import pytest

from experiments.failure import reason_in


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
