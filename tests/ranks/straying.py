"""main.py on two ranks, the second of which reads other weights; test_launch.py starts them.

As where a node has an older copy of the model that a run begins from.
"""

import os

import torch

import main
from configs import command


def stray(world, model):
    """Change the last bit of one weight, before the ranks compare them."""
    report_implementations(world, model)
    with torch.no_grad():
        weight = model.decoder.bias[7:8]
        weight.copy_(torch.nextafter(weight, torch.ones_like(weight)))


if __name__ == "__main__":
    report_implementations = main.report_implementations
    if os.environ["RANK"] == "1":
        main.report_implementations = stray
    command.run(main.main)
