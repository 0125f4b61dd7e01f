"""A rank that trains in several ways, leaves the world and lists gloo's remaining threads.

With the word `failing`, it leaves with an error, which is looked at while the threads are counted.
"""

import sys
from pathlib import Path

from tests.ranks.exchanging import WAYS, trained
from training.parallel.distributed import World, launched

TRIED = [WAYS["one bucket"], WAYS["flat"], WAYS["fp16"], {"combine": "adasum"}]


def gloo_threads() -> list[str]:
    """Return the names of this process's threads that belong to gloo."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


def train(world: World, fails: bool) -> None:
    """Train in each way and print whether there are threads."""
    trainers = [trained(world, **way) for way in TRIED]
    print(f"rank {world.rank}: within {bool(gloo_threads())}", end=", ")
    if fails:
        raise LookupError(f"of {len(trainers)} trainers")


if __name__ == "__main__":
    try:
        with launched("cpu") as world:
            train(world, sys.argv[1:] == ["failing"])
        print(f"left {gloo_threads()}")
    except LookupError as error:
        print(f"left {gloo_threads()} {error}")
