"""What the heads minimise.

Classes that exclude each other share a softmax and its cross-entropy: their probabilities sum to
one, as they must, where a sigmoid for each (Kant et al. 2018's default) lets all or none be likely.
Classes that do not exclude each other each have a sigmoid and a binary cross-entropy.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def head_loss(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of the heads' separate losses, for logits [B, K, C].

    labels: int64 [B], or [B, C] of 0 and 1. weights: from `balancing_weights`, or none. Each head
    learns alone; only their probabilities are averaged.
    """
    B, K, C = logits.shape
    if labels.ndim == 1:
        each = labels.repeat_interleave(K)
        return F.cross_entropy(logits.reshape(B * K, C), each, weight=weights)
    truth = labels.to(logits.dtype).unsqueeze(1).expand(-1, K, -1)
    return F.binary_cross_entropy_with_logits(logits, truth, pos_weight=weights)


def balancing_weights(labels: np.ndarray, classes: int) -> Tensor:
    """Return float32 [C]: N / (C n) for a class of n examples; multi-label, negatives a positive.

    labels: those of the training set, [N], or [N, C] of 0 and 1.
    """
    if labels.ndim == 1:
        counts = np.bincount(labels, minlength=classes)
        weights = len(labels) / (classes * np.maximum(counts, 1))
    else:
        weights = (1 - labels).sum(0) / np.maximum(labels.sum(0), 1)
    return torch.from_numpy(weights.astype(np.float32))
