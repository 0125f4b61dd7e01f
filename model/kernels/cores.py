"""Which instructions the cores of this process have, and what a device multiplies fast."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

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
