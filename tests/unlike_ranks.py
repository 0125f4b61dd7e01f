"""main.py on two ranks, the second on faster hardware; tests/test_launch.py starts them."""

import os

import main
from configs import command
from training import precision

SECOND = os.environ["RANK"] == "1"


if __name__ == "__main__":
    precision.has_fast_bf16 = lambda device: SECOND
    command.run(main.main)
