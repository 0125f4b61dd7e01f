"""main.py on two ranks, the second on faster hardware; test_launch.py starts them.

From the first checkpoint on that rank has three lanes in four. Each rank prints what lanes there
are when it asks. Afterwards they train with Muon in bf16, as a run that asks for it does, and
compare their weights.
"""

import os
import sys

import main
from configs import command
from tests.ranks.combining import make, take_steps
from training import trainer
from training.parallel.distributed import check_same_weights

SECOND = os.environ["RANK"] == "1"
pretrain = main.pretrain


def pretrain_and_try_muon(run):
    """Do both in one world: two of them one after the other would need two ports."""
    code, world = pretrain(run), run.world
    with_muon = make(world, 8, optim={"name": "muon", "lr": 1e-2}, precision="bf16")
    take_steps(with_muon, with_muon.own, 1)
    check_same_weights(world, with_muon.model)
    return code


def rebalanced_shares(speeds, counts, lanes):
    """Replace what the clocks would give: the second rank is three times as fast."""
    print(f"lanes {counts}")
    return (1.0, 3.0) if counts == [lanes // 2, lanes // 2] else None


if __name__ == "__main__":
    for module in list(sys.modules.values()):
        if hasattr(module, "multiplies_fast"):
            module.multiplies_fast = lambda dtype, device: SECOND
    trainer.rebalanced_shares = rebalanced_shares
    main.pretrain = pretrain_and_try_muon
    command.run(main.main)
