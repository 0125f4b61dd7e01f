"""The losses of the heads, computed another way."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from transfer.finetuning.trainer import head_loss

LOGITS = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 2, 3)))  # B, K, C
SINGLE = np.array([0, 2, 2, 1, 2, 0, 2])
SEVERAL = (np.random.default_rng(1).random((7, 3)) > 0.6).astype(np.int64)


def test_exclusive_classes_share_a_softmax():
    each = [log_loss(SINGLE, LOGITS[:, k].softmax(-1).numpy()) for k in range(2)]
    loss = head_loss(LOGITS, torch.from_numpy(SINGLE))
    assert float(loss) == pytest.approx(np.mean(each), rel=1e-12)


def test_classes_that_do_not_exclude_each_other_have_their_own_loss():
    each = [
        log_loss(SEVERAL[:, c], LOGITS[:, k, c].sigmoid().numpy(), labels=[0, 1])
        for k in range(2)
        for c in range(3)
    ]
    loss = head_loss(LOGITS, torch.from_numpy(SEVERAL))
    assert float(loss) == pytest.approx(np.mean(each), rel=1e-12)
