"""Ranks that measure their machine for the planner; the main one prints its cluster file."""

from experiments.scaling.calibration import calibrate
from training.parallel.distributed import launched

if __name__ == "__main__":
    with launched("cpu") as world:
        measured = calibrate(world, lanes=4, sizes=(32,))
        if world.is_main:
            print(measured)
