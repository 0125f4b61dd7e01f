"""Two ranks, the main one of which works for longer than the other waits for a peer.

It writes a sample, fails in the middle of another one, and scores the only strip of a text.
test_launch.py starts them.
"""

import time
from types import SimpleNamespace

import torch

from data_utils.corpus import open_corpus
from mlstm_sentiment.engine import sampling
from mlstm_sentiment.errors import InputError
from model.inference import features
from tests.support.runs import ROOT
from tests.support.trainers import make_trainer
from training.evaluation import EvaluateConfig, evaluate_split
from training.monitor import Monitor
from training.parallel.distributed import launched
from training.trainer import Diverged

TIMEOUT = 3.0  # seconds
PIECE = 0.5
PIECES = 8
read = features.read


def written_slowly(*args, **kwargs):
    """Yield what `generate` does, with time to spare in each part but not in all together."""
    for _ in range(PIECES):
        time.sleep(PIECE)
        yield 0, "a"


def failing(*args, **kwargs):
    """Yield some pieces, then find NaN as `generate` does."""
    yield 0, "a"
    yield 0, "b"
    raise InputError("the model predicts NaN")


def scored_slowly(model, sequences, **options):
    """Score as `read` does, and pause after it."""
    reading = read(model, sequences, **options)
    for _ in range(PIECES):
        time.sleep(PIECE)
        options["advance"](0)
    return reading


if __name__ == "__main__":
    assert PIECES * PIECE > TIMEOUT
    sampling.generate = written_slowly
    corpus, trainer = open_corpus(ROOT / "tests/fixtures/v1/corpus"), make_trainer()
    with launched("cpu", timeout=TIMEOUT) as world:
        log = SimpleNamespace(board=SimpleNamespace(add_text=lambda *_: None))
        assert torch.equal(world.sum(torch.ones(1)), torch.full((1,), 2.0))
        Monitor(EvaluateConfig(), corpus, world).show(trainer, log)
        world.barrier()
        sampling.generate = failing
        try:
            Monitor(EvaluateConfig(), corpus, world).show(trainer, log)
        except Diverged:
            print(f"rank {world.rank} learned of the failure")
        features.read = scored_slowly
        bits, characters = evaluate_split(
            trainer.model, corpus.splits["valid"], lanes=1, world=world
        )
    print(f"rank {world.rank} scored {characters}: {bits:.6f}")
