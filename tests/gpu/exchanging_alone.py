"""The bucketed exchange in a group of one rank, on NCCL or gloo, for test_exchange.py.

Prints, as JSON: for each precision and each way to exchange, the mean loss of some steps and the
seconds exposed. The process must end by itself.
"""

import json
import sys

import numpy as np
import torch
import torch.distributed as dist

from data_utils.lanes import WindowBatch
from tests.support.trainers import make_trainer
from training.parallel.batch import as_batch
from training.parallel.buckets import BucketedExchange
from training.parallel.distributed import TrainingDevice, World, launched

STEPS = 8
SIZES = {"cuda": (1024, 128, 128), "cpu": (16, 4, 8)}  # units, lanes, bytes
SENT = {"alone": None, "fp32": torch.float32, "fp16": torch.float16}


def compare(world: World) -> dict[str, dict[str, float]]:
    """Train in each precision and each way; return the losses and the seconds exposed."""
    units, lanes, length = SIZES[world.device.type]
    tokens = np.random.default_rng(0).integers(0, 256, (lanes, length + 1), dtype=np.uint8)
    count = lanes * length
    window = WindowBatch(tokens, np.full(lanes, length), np.full(lanes, True), count, count)
    results = {}
    for precision in ("fp32", "bf16", "fp16"):
        for way, sent in SENT.items():
            trainer = make_trainer(
                precision,
                lanes,
                steps=100,
                hidden_size=units,
                world=world,
                lr=1e-3,
                clip_norm=1.0,
            )
            if sent is not None:
                leaves, loss = trainer.model.per_gate_parameters(), trainer._loss_of_one_token
                trainer.exchange = BucketedExchange(leaves, trainer.world, sent, 25.0, loss)
            for _ in range(STEPS):
                trainer.train(as_batch(window, world.device))
            nats = float(trainer.nats) / (STEPS * count)
            results[f"{precision} {way}"] = {"nats": nats, "exposed": trainer.exchange.clock.lap()}
    return results


def main(kind: TrainingDevice) -> None:
    with launched(kind, timeout=60.0) as world:
        dist.init_process_group(
            dist.get_default_backend_for_device(world.device),
            store=dist.HashStore(),
            rank=0,
            world_size=1,
            timeout=world.timeout,
        )
        results = compare(world)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
