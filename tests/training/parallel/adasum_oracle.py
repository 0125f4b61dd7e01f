"""Adasum as its paper writes it, over lists of arrays, in float64."""

import numpy as np


def pair(a, b):
    """Return Adasum of two arrays."""
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
