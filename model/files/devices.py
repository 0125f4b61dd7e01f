"""Chooses the device of a model: the best one, or the one asked for."""

from typing import NamedTuple

import torch

from ..errors import InputError

KNOWN = "auto, cpu, cuda, cuda:N (the GPU of that number, from 0), mps"


DeviceName = str | torch.device | None  # None is "auto"


class Machine(NamedTuple):
    """The devices that torch is built for, and those that are present."""

    built_for_gpus: bool
    gpus: int
    built_for_mps: bool
    mps: bool


def this_machine() -> Machine:
    """Return what torch reports about this machine."""
    mps = torch.backends.mps
    built = torch.version.cuda is not None or torch.version.hip is not None
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Machine(built, gpus, mps.is_built(), mps.is_available())


def choose_device(name: DeviceName, machine: Machine | None = None) -> torch.device:
    """Return the torch.device of a name; `auto` or None: a CUDA GPU, else Apple's, else the CPU.

    machine: this one unless given. Raises InputError, with the reason, for a device that cannot be
    used.
    """
    machine = machine or this_machine()
    if name is None or name == "auto":
        kinds = ("cuda", "mps")
        found = (kind for kind in kinds if not reason_against(torch.device(kind), machine))
        return torch.device(next(found, "cpu"))
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device {name!r} is unknown; known: {KNOWN}") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"device {name!r}: nothing here runs on one; known: {KNOWN}")
    if reason := reason_against(device, machine):
        raise InputError(f"device {name}: {reason}; use auto or cpu")
    return device


def reason_against(device: torch.device, machine: Machine | None = None) -> str:
    """Return why a device cannot be used, or ""; machine: by default this one."""
    machine = machine or this_machine()
    if device.type == "cuda":
        return _reason_against_cuda(device.index or 0, machine)
    if device.type == "mps" and not machine.built_for_mps:
        return "only on a Mac, and this torch is not built for one"
    if device.type == "mps" and not machine.mps:
        return "needs macOS 12.3 or newer and a GPU of Apple's"
    return ""


def _reason_against_cuda(index: int, machine: Machine) -> str:
    if not machine.built_for_gpus:
        return "torch sees no GPU: this is its CPU build; install the one for your GPU"
    if not machine.gpus:
        return "torch sees no GPU; is its driver installed, and CUDA_VISIBLE_DEVICES not empty?"
    if index >= machine.gpus:
        return f"there are {machine.gpus} GPUs, numbered from 0"
    return ""
