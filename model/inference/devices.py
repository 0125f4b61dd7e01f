"""Chooses the device of a model: the best one, or the one asked for."""

import logging
import re

import torch

from mlstm_sentiment.errors import InputError

_OLDEST_OF_CUDA_13 = (7, 5)  # compute capability; older GPUs need CUDA 12
_FOR_OLDER_GPUS = "pip install 'torch<2.15' --index-url https://download.pytorch.org/whl/cu126"
_KERNELS = re.compile(r"(sm|compute)_(\d+)(\d)[af]?")

log = logging.getLogger(__name__)

_KNOWN = "auto, cpu, cuda, cuda:N (the GPU of that number, from 0), mps"


DeviceName = str | torch.device | None  # None is "auto"


def missing_kernels(index: int) -> str:
    """Return why this torch has no kernels for a GPU, and what to install; "" if it has them.

    torch calls a GPU available even if it was built without kernels for it.
    """
    kernels = list(filter(None, map(_KERNELS.fullmatch, torch.cuda.get_arch_list())))
    if torch.version.cuda is None or not kernels:  # on AMD's GPUs the names are others
        return ""
    capability = torch.cuda.get_device_capability(index)
    for kind, major, minor in (match.groups() for match in kernels):
        built = int(major), int(minor)
        # Machine code runs on later GPUs of the same generation, PTX is compiled for any later one.
        if built <= capability and (kind == "compute" or built[0] == capability[0]):
            return ""
    is_old = capability < _OLDEST_OF_CUDA_13
    remedy = _FOR_OLDER_GPUS if is_old else "install a newer torch (https://pytorch.org)"
    number = ".".join(map(str, capability))
    return (
        f"torch {torch.__version__} has no kernels for GPU {index}, "
        f"{torch.cuda.get_device_name(index)} (compute capability {number}); {remedy}"
    )


def choose_device(name: DeviceName) -> torch.device:
    """Return the torch.device of a name; `auto` or None: a CUDA GPU, else Apple's, else the CPU.

    A GPU that is there but cannot be used is reported. Raises InputError, with the reason, for a
    device that cannot be used.
    """
    if name is None or name == "auto":
        if torch.cuda.is_available():
            warn_if_unused(missing_kernels(0))
        usable = (kind for kind in ("cuda", "mps") if not reason_against(torch.device(kind)))
        return torch.device(next(usable, "cpu"))
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device {name!r} is unknown; known: {_KNOWN}") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"device {name!r} is not supported; known: {_KNOWN}")
    if reason := reason_against(device):
        raise InputError(f"device {name}: {reason}; use auto or cpu")
    return device


def warn_if_unused(reason: str) -> bool:
    """Warn, and return True, if there is a reason against the GPU that `auto` would take."""
    if reason:
        log.warning("the GPU is not used: %s", reason)
    return bool(reason)


def reason_against(device: torch.device) -> str:
    """Return why a device cannot be used, or ""."""
    if device.type == "mps" and not torch.backends.mps.is_built():
        return "only on a Mac, and this torch is not built for one"
    if device.type == "mps" and not torch.backends.mps.is_available():
        return "needs macOS 12.3 or newer and a GPU of Apple's"
    if device.type != "cuda":
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return "torch sees no GPU: this is its CPU build; install the one for your GPU"
    if not torch.cuda.is_available():
        return "torch sees no GPU; is its driver installed, and CUDA_VISIBLE_DEVICES not empty?"
    if (index := device.index or 0) >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, numbered from 0"
    return missing_kernels(index)
