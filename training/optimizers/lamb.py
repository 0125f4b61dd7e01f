"""LAMB, for large batches: Adam's direction, and steps in proportion to each tensor's norm."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from mlstm_sentiment.errors import InputError

EPSILON = 1e-6


def make_lamb(
    parameters: Sequence[nn.Parameter], *, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    """Build pytorch-optimizer's LAMB, set to You et al. 2020 (arXiv:1904.00962), algorithm 2.

    For each tensor w of gradient g:

        m <- beta1 m + (1 - beta1) g        v <- beta2 v + (1 - beta2) g^2
        r = m / (sqrt(v) + epsilon) + weight_decay w        w <- w - lr |w| / |r| r

    with phi(|w|) = |w|, so nothing is clamped, and |w| / |r| = 1 where either is 0. The bias of m
    and v is not corrected. Apart from weight decay and epsilon, dividing by |r| cancels it, and the
    paper's appendix finds that warm-up has the same effect.
    Raises InputError if the package is missing.
    """
    try:
        from pytorch_optimizer import Lamb
    except ModuleNotFoundError as error:
        raise InputError(
            "optim.name lamb needs a package that is not there: pip install pytorch-optimizer"
        ) from error

    optimizer = Lamb(
        parameters,
        lr=0.0,
        betas=betas,
        eps=EPSILON,
        weight_decay=weight_decay,
        weight_decouple=False,  # weight decay is part of r, as in the paper
        adam_debias=True,  # else lr is divided by 1 - beta1^t: half of a correction
    )
    optimizer.clamp = math.inf  # of |w|; 10 by default
    return optimizer
