"""A rank that trains in several ways, leaves the world and lists gloo's remaining threads."""

from pathlib import Path

from tests.ranks.exchanging import WAYS, trained
from training.parallel.distributed import launched

TRIED = [WAYS["one bucket"], WAYS["flat"], WAYS["fp16"], {"combine": "adasum"}]


def gloo_threads() -> list[str]:
    """Return the names of this process's threads that belong to gloo."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


if __name__ == "__main__":
    with launched("cpu") as world:
        for way in TRIED:
            trained(world, **way)
        within = gloo_threads()
    print(f"rank {world.rank}: within {bool(within)}, left {gloo_threads()}")
