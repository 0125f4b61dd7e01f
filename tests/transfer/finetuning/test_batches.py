"""The order of an epoch: every text once, like lengths together, anew in every epoch."""

import numpy as np

from transfer.finetuning.trainer import POOL, batches_per_epoch, epoch_batches

LENGTHS = np.random.default_rng(0).integers(1, 200, size=1003)


def test_every_text_is_in_one_batch():
    batches = epoch_batches(LENGTHS, 8, seed=1, epoch=0)
    assert sorted(np.concatenate(batches)) == list(range(1003))
    assert len(batches) == batches_per_epoch(1003, 8)
    assert sorted(map(len, batches))[:2] == [3, 8]


def test_lengths_in_a_batch_are_alike_and_batches_are_shuffled():
    batches = epoch_batches(LENGTHS, 8, seed=1, epoch=0)
    spread = [LENGTHS[batch].max() - LENGTHS[batch].min() for batch in batches if len(batch) == 8]
    assert np.median(spread) <= 3 * 200 / POOL
    means = [LENGTHS[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3
