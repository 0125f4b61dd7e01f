"""Which units a classifier leans on, and which of them is shown as its neuron."""

from collections.abc import Sequence

import numpy as np
import torch

from .heads import Heads, class_probabilities


def leanings_of_heads(
    heads: Heads, shares: Sequence[Sequence[float]], *, exclusive: bool, poolings: int = 1
) -> np.ndarray:
    """Return how far each unit's usual spread moves the probability of P poles: float64 [P, H].

    shares: [P, C], how far each class counts as the pole. It is the slope at the mean text times
    the spread: behind hidden layers a unit's weight depends on the text. A unit's poolings add up.
    """
    center = heads.center.clone().requires_grad_()
    with torch.enable_grad():
        logits = heads.eval()(center.unsqueeze(0))
        each = class_probabilities(logits, exclusive=exclusive)[0]  # [C]
        poles = torch.tensor(shares, dtype=each.dtype) @ each  # [P]
        slopes = [torch.autograd.grad(pole, center, retain_graph=True)[0] for pole in poles]
    moved = (torch.stack(slopes) * heads.scale).double()  # [P, F]
    return moved.view(len(shares), poolings, -1).sum(1).numpy()


def shares_of_classes(classes: int, *, exclusive: bool) -> list[list[float]]:
    """Return each class as a pole of its own; of two that exclude each other only the second."""
    alone = np.eye(classes).tolist()
    return alone[1:] if exclusive and classes == 2 else alone


def leading_unit(leanings: np.ndarray) -> tuple[int, int]:
    """Return the unit of the largest leaning [P, H], and 1 where it is for the last pole, else -1.

    Heads lean on many units; this one is the first to look at.
    """
    unit = int(np.abs(leanings).max(0).argmax())
    return unit, -1 if leanings[-1, unit] < 0 else 1


def ranked_units(leanings: np.ndarray) -> list[int]:
    """Return the units by their largest leaning to any pole [P, H], without those of none."""
    largest = np.abs(leanings).max(0)
    order = np.argsort(-largest, kind="stable")
    return [int(unit) for unit in order if largest[unit] > 0]


class LeansOnUnits:
    """A classifier that has no single unit: its neuron is the one that it leans on most."""

    @property
    def leanings(self) -> np.ndarray:
        """How far each unit's usual spread moves each pole: float64 [P, H]."""
        raise NotImplementedError

    @property
    def neuron(self) -> int:
        """The unit that it leans on most."""
        return leading_unit(self.leanings)[0]

    @property
    def polarity(self) -> int:
        """1 where a high value of that unit speaks for the last pole (praise), else -1."""
        return leading_unit(self.leanings)[1]

    @property
    def neuron_column(self) -> int:
        """Where that unit's last state stands among the features: the last states come first."""
        return self.neuron
