"""main.py on two ranks, the second on faster hardware; tests/test_launch.py starts them.

Afterwards they train with Muon in bf16, as a run that asks for it does, and compare their weights.
"""

import os
import sys

import main
from configs import command
from tests.combining_ranks import make_trainer, take_steps
from training.parallel.agreement import check_same_weights

SECOND = os.environ["RANK"] == "1"
pretrain = main.pretrain


def pretrain_and_try_muon(run, world):
    """Do both in one world: two of them one after the other would need two ports."""
    code = pretrain(run, world)
    trainer = make_trainer(world, 8, optim={"name": "muon", "lr": 1e-2}, precision="bf16")
    take_steps(trainer, trainer.own, 1)
    check_same_weights(world, trainer.model)
    return code


if __name__ == "__main__":
    for module in list(sys.modules.values()):
        if hasattr(module, "has_fast_bf16"):
            module.has_fast_bf16 = lambda device: SECOND
    main.pretrain = pretrain_and_try_muon
    command.run(main.main)
