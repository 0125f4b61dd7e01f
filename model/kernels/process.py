"""What this package changes in the process that it runs in.

It changes nothing in a program that imports it. In a process of one of our commands, which calls
`own_process` at its start, the number of torch's threads follows the quota of cores, and threads
make room for other programs (crowding.py). `follow_fork` changes a forked process that uses a
model.
"""

import os
from functools import cache
from pathlib import Path

from mlstm_sentiment.engine.cores import ROOT, affine_cores, usable_cores

_owned = False
_pid: int | None = None  # of the last process that had a model


def own_process() -> None:
    """Let this package adapt the process to the machine; only our commands call this."""
    global _owned
    _owned = True


def owns_process() -> bool:
    return _owned


def follow_quota() -> None:
    """In a process of our commands, let torch use at most as many threads as usable cores."""
    if _owned:
        limit_threads()


@cache
def limit_threads(root: Path = ROOT) -> None:
    """Let torch use at most as many threads as usable cores, unless their number was chosen.

    A number counts as chosen if OMP_NUM_THREADS or MKL_NUM_THREADS sets it, or if it is above the
    number of cores, which torch never takes by itself. Only the first call does this: a program may
    set another number later. Torch itself takes a thread for each physical core, whatever the quota
    is. root: the folder that has proc and sys.
    """
    import torch

    chosen = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & os.environ.keys()
    if not chosen and usable_cores(root) < torch.get_num_threads() <= affine_cores():
        torch.set_num_threads(usable_cores(root))


def follow_fork() -> None:
    """Compute in one thread from now on if this process was forked from one with a model.

    OpenMP's other threads exist only in the parent, so the child would hang
    (pytorch/pytorch#17199). Called wherever a model is made or used.
    """
    import torch

    global _pid
    if _pid not in (None, os.getpid()):
        torch.set_num_threads(1)
    _pid = os.getpid()
