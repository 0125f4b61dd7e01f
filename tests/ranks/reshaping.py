"""Ranks that are four, then two, then four again; test_elastic.py starts and reads them.

Rank 0 prints, as JSON, the loss of every step, those of one process over the same lanes, and
whether every start took up, bit for bit, the states that the one before it had left.
"""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from data_utils.lanes import Lanes
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.files.writer import write_content
from mlstm_sentiment.text.split import encode_split
from tests.support.runs import free_port, wait_for
from tests.support.trainers import ALONE, PROFILE, make_trainer
from training.checkpoint import Checkpoints
from training.parallel.batch import as_batch
from training.parallel.distributed import launched

STARTS = ((4, 8), (2, 16), (4, 24))  # ranks, and the step up to which they train
LANES = 6  # four ranks have 1, 2, 1 and 2 of them


def train(world, folder, steps):
    """Go on to a step as main.py does; return the losses, and whether the states were the same."""
    trainer = make_trainer(
        lanes=LANES, steps=STARTS[-1][1], hidden_size=16, world=world, decay="constant"
    )
    split = encode_split((r.text for r in synthetic_reviews(40, seed=5)), PROFILE)
    lanes = Lanes(split, lanes=LANES, window=16, own=world.own_slice(LANES))
    checkpoints = Checkpoints(folder, keep=1, corpus_fingerprint="abc")
    left = [load_file(path / "lanes.safetensors") for path in checkpoints.complete()]
    checkpoints.restore(trainer)
    restored = trainer.all_lanes()
    same = all(restored.h.equal(states["h"]) and restored.c.equal(states["c"]) for states in left)
    losses = []
    while trainer.progress.step < steps:
        trainer.train(as_batch(lanes[trainer.progress.step], world.device))
        losses.append(trainer.close_row()["train_bits_per_character"])
    checkpoints.save(trainer, PROFILE, {})
    return losses, same


def agreed_port(path, rank):
    """Return a port that rank 0 chooses and writes to a file, as late as it can be."""
    if rank == 0:
        write_content(path, str(free_port()), None)
    wait_for(path, bool, seconds=240)  # for as long as the others train
    return path.read_text()


def main():
    """Take part in the starts that are large enough for this rank."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    rank, together, same = int(os.environ["RANK"]), [], []
    for number, (ranks, steps) in enumerate(STARTS):
        if rank < ranks:
            port = agreed_port(folder / f"port-{number}", rank)
            os.environ |= {"WORLD_SIZE": str(ranks), "MASTER_PORT": port}
            with launched("cpu") as world:
                torch.set_num_threads(1)
                losses, unchanged = train(world, folder / "together", steps)
            together += losses
            same.append(unchanged)
    if rank == 0:
        alone, _ = train(ALONE, folder / "alone", STARTS[-1][1])
        json.dump({"together": together, "alone": alone, "same": same}, sys.stdout)


if __name__ == "__main__":
    main()
