"""The order in which an epoch reads the training set: random, with texts of like length together.

A batch is read without padding, a row leaving when it ends, so that every length in it costs a
call of the recurrence. Sorting within a pool of many batches keeps the lengths few and the batches
different from epoch to epoch.
"""

from collections.abc import Sequence

import numpy as np

POOL = 100  # batches that are sorted together, at most


def epoch_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the batches of an epoch, indices [B] each; every text is in one of them.

    The same seed and epoch, the same batches: nothing needs to be kept to go on.
    """
    generator = np.random.default_rng((seed, epoch))
    known = np.asarray(lengths)
    order = generator.permutation(len(known))
    total = batches_per_epoch(len(known), batch_size)
    size = -(-total // -(-total // POOL)) * batch_size  # pools of equal size, as few as may be
    batches = []
    for first in range(0, len(order), size):
        pool = order[first : first + size]
        pool = pool[np.argsort(-known[pool], kind="stable")]
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[place] for place in generator.permutation(len(batches))]


def batches_per_epoch(texts: int, batch_size: int) -> int:
    """Return how many batches `epoch_batches` returns."""
    return -(-texts // batch_size)
