"""main.py on two ranks, the second of which reads other weights; test_launch.py starts them.

As where a node has an older copy of the model that a run begins from.
"""

import os

import torch

import main
from configs import command


def begin_from_others(trainer, *source):
    """Begin from weights of which one differs in its last bit."""
    load_initial_weights(trainer, *source)
    with torch.no_grad():
        weight = trainer.model.decoder.bias[7:8]
        weight.copy_(torch.nextafter(weight, torch.ones_like(weight)))


if __name__ == "__main__":
    load_initial_weights = main.load_initial_weights
    if os.environ["RANK"] == "1":
        main.load_initial_weights = begin_from_others
    command.run(main.main)
