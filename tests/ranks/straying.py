"""main.py on two ranks, the second of which reads other weights; test_launch.py starts them.

As where a node has an older copy of the model that a run begins from.
"""

import os

import torch

import main
from configs import command
from training.start import StartModel


def load_others(start, model):
    """Load weights of which one differs in its last bit."""
    origin = load_into(start, model)
    with torch.no_grad():
        weight = model.decoder.bias[7:8]
        weight.copy_(torch.nextafter(weight, torch.ones_like(weight)))
    return origin


if __name__ == "__main__":
    load_into = StartModel.load_into
    if os.environ["RANK"] == "1":
        StartModel.load_into = load_others
    command.run(main.main)
