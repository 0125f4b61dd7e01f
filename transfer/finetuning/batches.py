"""The batches of an epoch: drawn at random, each of texts of similar length.

A batch is read without padding: a text leaves it at its end, so every distinct length costs a call
of the recurrence. Texts are therefore sorted by length within random pools of many batches, which
differ from epoch to epoch. A set of at most POOL batches is a single pool: each epoch has nearly
the same batches, in an order of its own.
"""

from collections.abc import Sequence

import numpy as np

POOL = 100  # batches that are sorted together, at most


def epoch_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the batches of an epoch, indices [B] each; every text is in one of them.

    They depend on the seed and the epoch alone, so a resumed run need not have saved them.
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
