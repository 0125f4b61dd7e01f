"""Ranks of which the last one alone runs out of memory, while the others wait for it."""

from configs import command
from training.parallel.distributed import launched


def main() -> None:
    """Synchronize once, then fail or wait."""
    with launched("cpu") as world:
        world.barrier()
        if world.rank == world.size - 1:
            raise MemoryError("of one rank")
        world.barrier()


if __name__ == "__main__":
    command.run(main)
