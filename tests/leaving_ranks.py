"""A rank that trains under DDP, leaves the world and names the threads of gloo still there."""

from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from training.distributed import launched


def train() -> None:
    """Run one backward pass whose gradients are exchanged."""
    model = DistributedDataParallel(torch.nn.Linear(3, 3))
    model(torch.ones(2, 3)).sum().backward()


def gloo_threads() -> list[str]:
    """Return the names of this process's threads that belong to gloo."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


if __name__ == "__main__":
    with launched("cpu") as world:
        train()
        within = gloo_threads()
    print(f"rank {world.rank}: within {bool(within)}, left {gloo_threads()}")
