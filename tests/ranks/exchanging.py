"""Ranks that compute the gradient of one step in many ways; test_exchange.py starts and reads them.

Rank 0 prints, as JSON: for each way, the largest relative difference over the tensors from the
gradient of one process with all lanes, the bytes sent, the dtype of every piece, whether all ranks
have the same, and whether the first exchange adds up as the second does.
"""

import json
import sys
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace

import torch
import torch.distributed as dist

from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import DTYPES
from tests.support.trainers import ALONE, CPU, make_trainer, uneven_window
from training.parallel.batch import as_batch
from training.parallel.distributed import launched
from training.parallel.exchange import ParallelConfig

LANES = 8
SMALL_BUCKETS = 0.002  # MB: several for this model

# What of a way also holds for the one process.
ONE_PROCESS = ("backend", "cell", "precision", "windows_per_step", "exchanges")
WAYS = {
    "one bucket": {},
    "small buckets": {"bucket_cap_mb": SMALL_BUCKETS},
    "flat": {"flat": True},
    "reference": {"backend": "reference", "bucket_cap_mb": SMALL_BUCKETS},
    "lstm": {"cell": "lstm"},
    "gru": {"cell": "gru"},
    "transformer, split anew": {
        "cell": "transformer", "exchanges": 2, "rebalanced": (1.0, 4.0, 0.0, 1.0),
    },
    "products in bf16": {"precision": "bf16"},
    "groups": {"lane_groups": 3, "bucket_cap_mb": SMALL_BUCKETS},
    "two windows": {"windows_per_step": 2, "bucket_cap_mb": SMALL_BUCKETS},
    "groups, flat": {"lane_groups": 2, "flat": True, "exchanges": 2},
    "uneven": {"shares": (5.0, 2.0, 0.5, 0.5)},
    "split anew": {"exchanges": 2, "rebalanced": (1.0, 4.0, 0.0, 1.0)},
    "a rank without lanes": {"shares": (1.0, 0.0, 2.0, 3.0)},
    "without lanes, flat": {"shares": (0.0, 3.0, 2.0, 3.0), "flat": True},
    "fp16": {"compression": "fp16", "bucket_cap_mb": SMALL_BUCKETS},
    "fp16, flat": {"compression": "fp16", "flat": True},
    "bf16": {"compression": "bf16"},
}  # fmt: skip


def new_trainer(world, *, backend="fused", cell="mlstm", precision="fp32", **parallel):
    """Return a trainer that is about to take its first step."""
    return make_trainer(
        precision,
        LANES,
        model=build_model(
            ModelConfig(cell=cell, hidden_size=16, backend=backend), 1, DTYPES[precision]
        ),
        world=replace(world, shares=parallel.get("shares", ())[: world.size]),
        parallel=ParallelConfig(**parallel),
        name="sgd",
        lr=1e-12,
    )


def take_step(trainer):
    """Train on as many windows as a step has."""
    numbers = range(trainer.parallel.windows_per_step)
    trainer.train(*(as_batch(uneven_window(number, trainer.own), CPU) for number in numbers))


def trained(world, *, exchanges=1, rebalanced=None, **way):
    """Return the trainer after some steps from the seed, with the last one's gradient."""
    trainer = new_trainer(world, **way)
    for _ in range(exchanges):
        take_step(trainer)
        if rebalanced:
            trainer.divide_lanes(rebalanced[: world.size])
    return trainer


def gradient(trainer):
    """Return the trainer's gradients by name; its optimiser has taken the loss's scale off."""
    return {name: p.grad for name, p in trainer.model.named_parameters()}


def repeats(world, *, exchanges=1, rebalanced=None, **way):
    """Return whether a second step from the same weights and states has the first one's bits."""
    trainer = new_trainer(world, **way)
    weights, state = deepcopy(trainer.model.state_dict()), trainer.state
    take_step(trainer)
    first = deepcopy(gradient(trainer))
    trainer.model.load_state_dict(weights)
    trainer.state = state
    take_step(trainer)
    return all(tensor.equal(first[name]) for name, tensor in gradient(trainer).items())


@contextmanager
def noted():
    """Yield a list to which the dtype of every tensor is added that is summed over ranks."""
    dtypes, all_reduce = [], dist.all_reduce

    def note(tensor, **options):
        dtypes.append(str(tensor.dtype))
        return all_reduce(tensor, **options)

    dist.all_reduce = note
    yield dtypes
    dist.all_reduce = all_reduce


def compare(world, way):
    """Return what rank 0 prints of a way."""
    with noted() as dtypes:
        trainer = trained(world, **way)
    alone = {key: way[key] for key in ONE_PROCESS if key in way}
    expected = gradient(trained(ALONE, **alone))
    mine = gradient(trainer)
    difference = max(
        float((mine[name] - tensor).norm() / tensor.norm()) for name, tensor in expected.items()
    )
    flat = torch.cat([tensor.flatten() for tensor in mine.values()])
    everyone = world.gather(flat)
    return {
        "difference": difference,
        "sent_bytes": trainer.exchange.sent_bytes,
        "dtypes": dtypes,
        "exposed": trainer.exchange.clock.lap(),
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
