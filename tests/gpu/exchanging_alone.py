"""The bucketed exchange in a group of one rank, on NCCL or gloo, for test_exchange.py.

Prints, as JSON: for each precision and each way to exchange, the mean loss of some steps and the
seconds exposed. The process must end by itself.
"""

import json
import sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from data_utils.lanes import WindowBatch
from tests.support.trainers import make_trainer
from training.parallel.batch import as_batch
from training.parallel.buckets import BucketedExchange
from training.parallel.distributed import World

STEPS = 8
SIZES = {"cuda": (1024, 128, 128), "cpu": (16, 4, 8)}  # units, lanes, bytes
SENT = {"alone": None, "fp32": torch.float32, "fp16": torch.float16}


def main(kind):
    units, lanes, length = SIZES[kind]
    device = torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo",
        store=dist.HashStore(),
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=60),
    )
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
                world=World(0, 1, device),
                lr=1e-3,
                clip_norm=1.0,
            )
            if sent is not None:
                leaves, loss = trainer.model.per_gate_parameters(), trainer._loss_of_one_token
                trainer.exchange = BucketedExchange(leaves, trainer.world, sent, 25.0, loss)
            for _ in range(STEPS):
                trainer.train(as_batch(window, device))
            nats = float(trainer.nats) / (STEPS * count)
            results[f"{precision} {way}"] = {"nats": nats, "exposed": trainer.exchange.clock.lap()}
    dist.destroy_process_group()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
