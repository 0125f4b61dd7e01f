"""Ranks that train with Adasum; test_adasum.py starts and reads them.

Rank 0 prints, as JSON: for each way to train, how far the weights are from those of a tree in
float64 over the ranks; what an overflow in one rank does; whether a resume is exact.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tests.support.trainers import ALONE, CPU, PROFILE, make_trainer, uneven_window
from training.checkpoint import Checkpoints
from training.parallel.batch import as_batch
from training.parallel.distributed import launched
from training.parallel.exchange import ParallelConfig
from training.runs.checkpoint_store import flatten_optimizers

LANES, STEPS = 8, 3
SGD = {"name": "sgd", "lr": 30.0}
ADAM = {"name": "adam", "lr": 1e-2}

WAYS = {
    "sgd": {"optim": SGD},
    "sgd, clipped": {"optim": SGD | {"lr": 300.0, "clip_norm": 0.01}},
    "adam": {"optim": ADAM},
    "adamw, clipped": {
        "optim": {"name": "adamw", "lr": 1e-2, "weight_decay": 0.1, "clip_norm": 0.05},
    },
    "muon": {"optim": {"name": "muon", "lr": 1e-2}},
    "lamb": {"optim": {"name": "lamb", "lr": 1e-2, "weight_decay": 0.01}},
    "lane groups, windows": {"optim": ADAM, "lane_groups": 2, "windows_per_step": 2},
    "shares": {"optim": ADAM, "shares": (5.0, 1.0, 1.0, 1.0)},
}  # fmt: skip
OVERFLOWING = {
    "sgd": SGD,
    "adam": ADAM,
    "muon, clipped": {"name": "muon", "lr": 1e-2, "clip_norm": 1.0},
}


def pair(a, b):
    """Return Adasum of two arrays as its paper writes it, in float64."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    inner = float(np.vdot(a, b))
    of_a = 1 - inner / (2 * float(np.vdot(a, a))) if a.any() else 1.0
    of_b = 1 - inner / (2 * float(np.vdot(b, b))) if b.any() else 1.0
    return of_a * a + of_b * b


def pairwise_tree(groups):
    """Return Adasum of several groups' lists of tensors: the halves', then that of the two."""
    if len(groups) == 1:
        return [np.asarray(tensor, np.float64) for tensor in groups[0]]
    half = len(groups) // 2
    both = pairwise_tree(groups[:half]), pairwise_tree(groups[half:])
    return [pair(a, b) for a, b in zip(*both, strict=True)]


def window(number, own):
    """Return a window of the lanes `own`; its counts are theirs alone."""
    whole = uneven_window(number, own)
    total = int(whole.lengths.sum())
    return as_batch(whole._replace(transitions=total, characters=total), CPU)


def make(world, lanes, *, optim, precision="fp32", **parallel):
    """Return a trainer of a small model from the seed."""
    parallel = ParallelConfig(**parallel)
    return make_trainer(precision, lanes, hidden_size=16, world=world, parallel=parallel, **optim)


def take_steps(trainer, own, steps):
    """Train on the next windows of the lanes `own`."""
    count = trainer.parallel.windows_per_step
    for _ in range(steps):
        first = trainer.progress.step * count
        trainer.train(*(window(first + number, own) for number in range(count)))


def weights_of(trainer):
    """Return the weights in float64, as arrays."""
    return [p.detach().double().numpy() for p in trainer.model.parameters()]


def expected(world, shares, optim, windows_per_step):
    """Return the weights after the steps, of a process per rank and a tree over what they did."""
    lanes = [replace(world, shares=shares).slice_of(rank, LANES) for rank in range(world.size)]
    trainers = [
        make(ALONE, own.stop - own.start, optim=optim, windows_per_step=windows_per_step)
        for own in lanes
    ]
    for _ in range(STEPS):
        before = weights_of(trainers[0])
        for trainer, own in zip(trainers, lanes, strict=True):
            take_steps(trainer, own, 1)
        moves = [
            [new - old for new, old in zip(weights_of(trainer), before, strict=True)]
            for trainer in trainers
        ]
        for trainer in trainers:
            together = zip(trainer.model.parameters(), before, pairwise_tree(moves), strict=True)
            with torch.no_grad():
                for parameter, old, move in together:
                    parameter.copy_(torch.from_numpy(old + move))
    return weights_of(trainers[0])


def train(world, *, optim, shares=(), **parallel):
    """Return what rank 0 prints of a way to train."""
    shares = shares[: world.size]
    trainer = make(replace(world, shares=shares), LANES, optim=optim, combine="adasum", **parallel)
    start = weights_of(trainer)
    take_steps(trainer, trainer.own, STEPS)
    oracle = expected(world, shares, optim, parallel.get("windows_per_step", 1))
    weights = weights_of(trainer)
    flat = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
    everyone = world.gather(flat)
    norm = np.linalg.norm
    moved = [norm(end - old) for end, old in zip(oracle, start, strict=True)]
    apart = [norm(a - b) for a, b in zip(weights, oracle, strict=True)]
    mean = make(world, LANES, optim=optim)
    take_steps(mean, mean.own, STEPS)
    from_mean = [norm(a - b) for a, b in zip(weights_of(mean), oracle, strict=True)]
    return {
        "difference": max(a / b for a, b in zip(apart, moved, strict=True)),
        "from_mean": max(a / b for a, b in zip(from_mean, moved, strict=True)),
        "same": bool((everyone == everyone[0]).all()),
        "sent_bytes": trainer.exchange.sent_bytes / STEPS,
        "parameters": flat.numel(),
    }


def overflow(world, *, optim):
    """Let one rank's gradient overflow in fp16; return whether weights moved, and the scale."""
    trainer = make(world, LANES, optim=optim, precision="fp16", combine="adasum")
    before, scale = weights_of(trainer), trainer.scaler.get_scale()
    weight = trainer.model.decoder.weight
    hook = weight.register_hook(lambda grad: grad * (torch.inf if world.rank == 1 else 1))
    take_steps(trainer, trainer.own, 1)
    after, scale_after = weights_of(trainer), trainer.scaler.get_scale()
    hook.remove()
    take_steps(trainer, trainer.own, 1)

    def moved(old, new):
        differs = any((a != b).any() for a, b in zip(old, new, strict=True))
        return bool(world.sum(torch.tensor(float(differs))))

    def finite():
        return all(np.isfinite(weight).all() for weight in weights_of(trainer))

    return {
        "moved": moved(before, after),
        "scale": float(world.sum(torch.tensor(scale_after / scale))) / world.size,
        "moved_next": moved(after, weights_of(trainer)),
        "finite": world.sum(torch.tensor(float(finite()))).item() == world.size,
    }


def resume(world, folder, *, optim, **parallel):
    """Train, save, go on; restore, go on: return whether it is the same, bit for bit."""
    trainers = [make(world, LANES, optim=optim, combine="adasum", **parallel) for _ in range(2)]
    checkpoints = Checkpoints(folder, keep=1, corpus_fingerprint="abc")
    take_steps(trainers[0], trainers[0].own, 2)
    checkpoints.save(trainers[0], PROFILE, {})
    world.sum(torch.zeros(1))  # until rank 0 has written
    checkpoints.restore(trainers[1])
    ends = []
    for trainer in trainers:
        take_steps(trainer, trainer.own, 2)
        optimizers = flatten_optimizers(trainer.optimizers)
        ends.append(trainer.model.state_dict() | optimizers | trainer.state.tensors())
    equal = all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())
    files = list(checkpoints.complete()[-1].glob("optimizer*.safetensors"))
    return {
        "equal": bool(world.sum(torch.tensor(float(equal))) == world.size),
        "files": len(files),
        "distinct": len({path.read_bytes() for path in files}),
    }


def main():
    """Try every way that so many ranks have."""
    folder = Path(sys.argv[1])
    with launched("cpu") as world:
        torch.set_num_threads(1)
        saved = {way: WAYS[way] for way in ("sgd", "adam", "muon", "lamb")}
        results = {
            "trained": {name: train(world, **way) for name, way in WAYS.items()},
            "overflow": {name: overflow(world, optim=way) for name, way in OVERFLOWING.items()},
            "resumed": {name: resume(world, folder / name, **way) for name, way in saved.items()},
        }
        if world.is_main:
            (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
