"""LAMB, for large batches: Adam's direction, and steps in proportion to each tensor's norm."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from mlstm_sentiment.errors import InputError

from .overflow import SkipsOverflows, undone_if

EPSILON = 1e-6
_MOMENTS = ("exp_avg", "exp_avg_sq")  # their names in the optimizer's state


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

    class OverflowSkippingLamb(SkipsOverflows, Lamb):
        """Skips overflowed steps; on a GPU it takes the step and undoes it after an overflow.

        The count of steps is then one too high, but nothing here depends on it.
        """

        @torch.no_grad()
        def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
            overflow = self.overflowed()
            if overflow is True:
                return
            for group in self.param_groups:
                self.init_group(group)
            moments = [state[name] for state in self.state.values() for name in _MOMENTS]
            with undone_if(overflow, [*self.state, *moments]):
                super().step(closure)

    optimizer = OverflowSkippingLamb(
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
