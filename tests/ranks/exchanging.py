"""Ranks that compute the gradient of one step in many ways; test_exchange.py starts and reads them.

Rank 0 prints, as JSON: for each way, the largest relative difference over the tensors from the
gradient of one process with all lanes, the bytes sent, whether all ranks have the same, and whether
the first exchange adds up as the second does.
"""

import json
import sys
from copy import deepcopy

import numpy as np
import torch

from data_utils.lanes import WindowBatch
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import DTYPES
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import World, launched
from training.parallel.exchange import ParallelConfig
from training.parallel.shares import Shares, with_shares
from training.trainer import TrainConfig, Trainer

LANES, T = 8, 12
SMALL_BUCKETS = 0.002  # MB: several for this model

# What the one process is told of a way.
ONE_PROCESS = ("backend", "cell", "precision", "windows_per_step", "exchanges")
WAYS = {
    "one bucket": {},
    "small buckets": {"bucket_cap_mb": SMALL_BUCKETS},
    "flat": {"flat": True},
    "reference": {"backend": "reference", "bucket_cap_mb": SMALL_BUCKETS},
    "lstm": {"cell": "lstm"},
    "gru": {"cell": "gru"},
    "transformer, dealt anew": {
        "cell": "transformer", "exchanges": 2, "deal": (1.0, 4.0, 0.0, 1.0),
    },
    "products in bf16": {"precision": "bf16"},
    "groups": {"lane_groups": 3, "bucket_cap_mb": SMALL_BUCKETS},
    "two windows": {"windows_per_step": 2, "bucket_cap_mb": SMALL_BUCKETS},
    "groups, flat": {"lane_groups": 2, "flat": True},
    "uneven": {"shares": (5.0, 2.0, 0.5, 0.5)},
    "dealt anew": {"exchanges": 2, "deal": (1.0, 4.0, 0.0, 1.0)},
    "a rank without lanes": {"shares": (1.0, 0.0, 2.0, 3.0)},
    "without lanes, flat": {"shares": (0.0, 3.0, 2.0, 3.0), "flat": True},
    "fp16": {"compression": "fp16", "bucket_cap_mb": SMALL_BUCKETS},
    "fp16, flat": {"compression": "fp16", "flat": True},
    "bf16": {"compression": "bf16"},
}  # fmt: skip


def windows(own):
    """Return two windows for lanes of unequal length, so that a mean of means would be wrong."""
    tokens = np.random.default_rng(0).integers(0, 256, (2, LANES, T + 1), dtype=np.uint8)
    lengths = np.array([T, T, 5, T, 1, 9, T, 7])
    reset = np.zeros(LANES, bool)
    total = int(lengths.sum())
    return [
        as_batch(
            WindowBatch(part[own], lengths[own], reset[own], total, total), torch.device("cpu")
        )
        for part in tokens
    ]


def made(world, *, backend="fused", cell="mlstm", precision="fp32", **parallel):
    """Return a trainer that is about to take its first step."""
    shares = parallel.get("shares", "even")
    config = ParallelConfig(**parallel)
    world = with_shares(world, shares if shares == "even" else shares[: world.size])
    return Trainer(
        build_model(ModelConfig(cell=cell, hidden_size=16, backend=backend), 1, DTYPES[precision]),
        optim=OptimConfig(name="sgd", lr=1e-12),
        train=TrainConfig(precision=precision),
        world=world,
        lanes=LANES,
        steps=10,
        seed=0,
        parallel=config,
    )


def take_step(trainer):
    """Train on as many windows as a step has."""
    trainer.train(*windows(trainer.own)[: trainer.parallel.windows_per_step])


def trained(world, *, exchanges=1, deal=None, **way):
    """Return the trainer after some steps from the seed, with the last one's gradient."""
    trainer = made(world, **way)
    for _ in range(exchanges):
        take_step(trainer)
        if deal:
            trainer.split_lanes(Shares(deal[: world.size]))
    return trainer


def gradient(trainer):
    """Return the trainer's gradients by name; its optimiser has taken the loss's scale off."""
    return {name: p.grad for name, p in trainer.model.named_parameters()}


def repeats(world, *, exchanges=1, deal=None, **way):
    """Return whether a second step from the same weights and states has the first one's bits."""
    trainer = made(world, **way)
    weights, state = deepcopy(trainer.model.state_dict()), trainer.state
    take_step(trainer)
    first = deepcopy(gradient(trainer))
    trainer.model.load_state_dict(weights)
    trainer.state = state
    take_step(trainer)
    return all(tensor.equal(first[name]) for name, tensor in gradient(trainer).items())


def compare(world, way):
    """Return what rank 0 prints of a way."""
    found = trained(world, **way)
    alone = {key: way[key] for key in ONE_PROCESS if key in way}
    expected = gradient(trained(World(0, 1, world.device), **alone))
    mine = gradient(found)
    difference = max(
        float((mine[name] - tensor).norm() / tensor.norm()) for name, tensor in expected.items()
    )
    flat = torch.cat([tensor.flatten() for tensor in mine.values()])
    everyone = world.gather(flat)
    return {
        "difference": difference,
        "sent_bytes": found.exchange.sent_bytes,
        "exposed": found.exchange.clock.lap(),
        "same": bool((everyone == everyone[0]).all()),
        "repeats": repeats(world, **way),
        "parameters": flat.numel(),
    }


def main():
    """Try every way."""
    with launched("cpu") as world:
        torch.set_num_threads(1)
        results = {name: compare(world, way) for name, way in WAYS.items()}
        if world.is_main:
            json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
