"""Small trainers, windows of random bytes for them, and checkpoints."""

import numpy as np
import torch

from data_utils.lanes import Lanes, WindowBatch
from mlstm_sentiment.text.profiles import text_profile
from model.layers.language_model import build_model
from model.state import DTYPES
from tests.support.cells import config_of
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.trainer import TrainConfig, Trainer

CPU = torch.device("cpu")
ALONE = World(0, 1, CPU)
EVEN = ParallelConfig()
PROFILE = text_profile("openai")


def make_trainer(
    precision="fp32", lanes=3, steps=10, dropout=0.0, loss_scale=None, cell="mlstm", hidden_size=8,
    model=None, parallel=EVEN, world=ALONE, **optim,
):  # fmt: skip
    config = config_of(cell, hidden_size=hidden_size, context=16)
    trainer = Trainer(
        model or build_model(config, seed=1, compute_dtype=DTYPES[precision]),
        optim=OptimConfig(**({"lr": 1e-2} | optim)),
        train=TrainConfig(precision=precision, dropout=dropout),
        world=world,
        lanes=lanes,
        steps=steps,
        seed=0,
        parallel=parallel,
    )
    if loss_scale is not None:
        trainer.scaler.load_state_dict(trainer.scaler.state_dict() | {"scale": loss_scale})
    return trainer


def make_window(lengths=(6, 6, 6), reset=True, seed=0, active_fraction=1.0):
    tokens = np.random.default_rng(seed).integers(0, 256, (3, 7), dtype=np.uint8)
    lengths = np.array(lengths)
    count = int(lengths.sum())
    return WindowBatch(tokens, lengths, np.full(3, reset), count, count, active_fraction)


def uneven_window(number, own):
    """Return tokens of lanes `own` of 8, of unequal lengths: a mean of means would be wrong."""
    tokens = np.random.default_rng(number).integers(0, 256, (8, 13), dtype=np.uint8)
    lengths = np.array([12, 12, 5, 12, 1, 9, 12, 7])
    total = int(lengths.sum())
    return WindowBatch(tokens[own], lengths[own], np.zeros(8, bool)[own], total, total)


def train(trainer, split, steps):
    stream = Lanes(split, lanes=3, window=11)
    for _ in range(steps):
        trainer.train(as_batch(stream[trainer.progress.step], CPU))


def saved_by(checkpoints, split, trainer=None, steps=1):
    """Train a few steps and save; return the trainer."""
    trainer = trainer or make_trainer()
    train(trainer, split, steps)
    checkpoints.save(trainer, PROFILE, {})
    return trainer
