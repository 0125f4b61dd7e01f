"""The cores of this process: their instructions, what a device multiplies fast, and its threads.

This package changes nothing in a program that imports it. In a process of one of our commands,
which calls `own_process` at its start, the number of torch's threads follows the quota of cores,
and threads make room for other programs (crowding.py). `follow_fork` changes a forked process that
uses a model.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlstm_sentiment.engine.cores import ROOT, affine_cores, usable_cores

if TYPE_CHECKING:
    import torch

_owned = False
_pid: int | None = None  # of the last process that had a model

EMULATED_AMX = "MLSTM_EMULATED_AMX"  # set to 1
# oneDNN takes the first of these variables that is set and not empty, in this order (measured with
# torch 2.13 and ONEDNN_VERBOSE=1).
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
# Their values that exclude some instructions.
_WITHOUT_BF16 = (
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"),
    *("AVX512_CORE", "AVX512_CORE_VNNI"),
)
_LIMITS_WITHOUT = {
    "avx512_bf16": _WITHOUT_BF16,
    "avx512_fp16": (*_WITHOUT_BF16, "AVX512_CORE_BF16"),
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
    limit = next(filter(None, map(os.environ.get, _LIMITS)), "")
    return limit.upper() not in _LIMITS_WITHOUT.get(name, ()) and bool(_capabilities().get(name))


def _capabilities() -> Mapping[str, Any]:
    """Return what torch knows of the processor; nothing if it cannot tell."""
    import torch

    return getattr(torch.cpu, "get_capabilities", dict[str, Any])()


def multiplies_fast(dtype: "torch.dtype", device: "torch.device") -> bool:
    """Return whether the device multiplies this dtype faster than fp32; True for fp32 itself.

    True, too, for Apple's GPUs, of which nothing is known.

    fp16: GPUs from Volta on, and CPUs with instructions for it. bf16: GPUs from Ampere on, Intel
    AMX, and AMD's AVX512-BF16 (Zen 4 and 5). Intel's AVX512-BF16 has half the speed of fp32
    (docs/speed.md).
    """
    import torch

    if dtype not in (torch.float16, torch.bfloat16) or device.type not in ("cpu", "cuda"):
        return True
    is_fp16 = dtype == torch.float16
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= ((7, 0) if is_fp16 else (8, 0))
    if is_fp16:
        return has_instructions("avx512_fp16") or has_instructions("fp16_arith")  # fp16_arith: ARM
    is_amd = "AMD" in _capabilities().get("cpu_name", "")
    return has_amx() or (is_amd and has_instructions("avx512_bf16"))


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
