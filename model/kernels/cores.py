"""The cores of this process: their instructions, what a device multiplies fast, and its threads.

This package changes nothing in a program that imports it. In a process of one of our commands,
which calls `own_process` at its start, the number of torch's threads follows the quota of cores,
and threads make room for other programs (crowding.py). `follow_fork` changes a forked process that
uses a model.
"""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlstm_sentiment.engine.cores import ROOT, affine_cores, usable_cores

if TYPE_CHECKING:
    import torch

_owned = False
_pid: int | None = None  # of the last process that had a model

EMULATED_AMX = "MLSTM_EMULATED_AMX"  # set to 1
# The values of oneDNN's ONEDNN_MAX_CPU_ISA that exclude some instructions.
_WITHOUT_BF16 = (
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"),
    *("AVX512_CORE", "AVX512_CORE_VNNI"),
)
_LIMITS_WITHOUT = {
    "avx512_bf16": _WITHOUT_BF16,
    "amx_bf16": (*_WITHOUT_BF16, "AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX10_1_512"),
}


def has_amx() -> bool:
    """Return whether the cores have Intel AMX, which multiplies bf16, or it is emulated."""
    return emulates_amx() or has_instructions("amx_bf16")


def emulates_amx() -> bool:
    """Return whether plain C++ stands in for Intel AMX: slow, for tests on any processor."""
    return os.environ.get(EMULATED_AMX) == "1"


def has_instructions(name: str) -> bool:
    """Return whether the cores have these instructions, by torch's name such as amx_bf16.

    What ONEDNN_MAX_CPU_ISA keeps from oneDNN counts as absent: torch's products do without it, too.
    """
    import torch

    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _LIMITS_WITHOUT.get(name, ()):
        return False
    read_capabilities = getattr(torch.cpu, "get_capabilities", dict[str, bool])
    return bool(read_capabilities().get(name, False))


def has_fast_fp16(device: "torch.device") -> bool:
    """Return whether a GPU multiplies fp16 faster than fp32: all from Volta on do."""
    import torch

    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 0)


def has_fast_bf16(device: "torch.device") -> bool:
    """Return whether the device multiplies bf16 faster than fp32.

    GPUs from Ampere on, Intel AMX and AVX-512's bf16 instructions do: on AMD's Zen 5, too, a
    training step is faster in bf16 (experiments/speed).
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return has_amx() or has_instructions("avx512_bf16")


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
