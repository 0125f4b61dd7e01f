"""Where ranks ran: what another person needs to judge their seconds."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from training.parallel.distributed import World

SYSTEM = Path("/sys/class")  # where Linux tells of devices
LIBRARIES = ("NCCL_", "GLOO_", "OMP_", "CUDA_")  # whose variables change how ranks compute and send


def describe_environment(world: World) -> dict[str, Any]:
    """Return the ranks, their nodes and threads, the backend, the network, and the load now."""
    on_gpu = world.device.type == "cuda"
    return {
        "ranks": world.size,
        "nodes": nodes(),
        "device": torch.cuda.get_device_name(world.device) if on_gpu else "cpu",
        "backend": dist.get_backend() if world.size > 1 else None,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        "threads": torch.get_num_threads(),
        "load": list(os.getloadavg()),
        "network": network(),
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(LIBRARIES)},
    }


def nodes() -> int:
    """Return the number of machines, as torch.distributed.run tells it."""
    return int(os.environ.get("GROUP_WORLD_SIZE", "1"))


def network(system: Path = SYSTEM) -> dict[str, str]:
    """Return what this machine's adapters say of their speed: Ethernet's, InfiniBand's ports'."""
    found = {}
    for adapter in sorted(system.glob("net/*")):
        if (adapter / "device").exists() and read(adapter / "operstate") != "down":
            speed = read(adapter / "speed") or ""
            found[adapter.name] = f"{speed} Mb/s" if speed.isdecimal() else "unknown"
    for port in sorted(system.glob("infiniband/*/ports/*")):
        found[f"{port.parent.parent.name}, port {port.name}"] = read(port / "rate") or "unknown"
    return found


def read(path: Path) -> str | None:
    """Return what a file of the kernel says; None where it says nothing."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
