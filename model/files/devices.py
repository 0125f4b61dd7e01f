"""Where a model runs: on the best device available, or on the one asked for, if it exists."""

import torch

from ..errors import InputError

KNOWN = "auto, cpu, cuda, cuda:N (the GPU of that number, from 0), mps"


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a CUDA GPU, else Apple's, else the CPU.

    Raises InputError, with the reason, for a device that cannot be used.
    """
    if name == "auto":
        found = (kind for kind in ("cuda", "mps") if not reason_against(torch.device(kind)))
        return torch.device(next(found, "cpu"))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is unknown; known: {KNOWN}") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"device {name!r}: nothing here runs on one; known: {KNOWN}")
    if reason := reason_against(device):
        raise InputError(f"device {name}: {reason}; use auto or cpu")
    return device


def reason_against(device: torch.device) -> str:
    """Return why a device cannot be used, or an empty string."""
    if device.type == "cuda":
        return _reason_against_cuda(device.index or 0)
    if device.type == "mps" and not torch.backends.mps.is_built():
        return "only on a Mac, and this torch is not built for one"
    if device.type == "mps" and not torch.backends.mps.is_available():
        return "needs macOS 12.3 or newer and a GPU of Apple's"
    return ""


def _reason_against_cuda(index: int) -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return "torch sees no GPU: this is its CPU build; install the one for your GPU"
    if not torch.cuda.is_available():
        return "torch sees no GPU; is its driver installed, and CUDA_VISIBLE_DEVICES not empty?"
    if index >= (count := torch.cuda.device_count()):
        return f"there are {count} GPUs, numbered from 0"
    return ""
