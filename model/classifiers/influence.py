"""How much each unit influences a classifier, and which unit is shown as its neuron.

A pole is a class whose probability we ask for; two exclusive classes have one pole.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
import torch

from .heads import Heads, class_probabilities


def influence_of_heads(
    heads: Heads, weights: Sequence[Sequence[float]], *, exclusive: bool, poolings: int = 1
) -> np.ndarray:
    """Return by how much a standard deviation of each unit changes P probabilities: [P, H].

    weights: [P, C], how much each class counts for each pole. The influence, float64, is the slope
    at the mean text times the standard deviation: with hidden layers a unit's weight depends on the
    text. Several poolings of a unit add up.
    """
    # A caller's inference mode allows no gradients, nor do tensors made in it.
    with torch.inference_mode(False), torch.enable_grad():
        heads = deepcopy(heads).eval()
        center = heads.center.clone().requires_grad_()
        logits = heads(center.unsqueeze(0))
        each = class_probabilities(logits, exclusive=exclusive)[0]  # [C]
        poles = torch.tensor(weights, dtype=each.dtype, device=each.device) @ each  # [P]
        slopes = [torch.autograd.grad(pole, center, retain_graph=True)[0] for pole in poles]
        changes = (torch.stack(slopes) * heads.scale).double()  # [P, F]
    return changes.view(len(weights), poolings, -1).sum(1).numpy()


def positive_weights_of(classes: int, *, exclusive: bool) -> list[list[float]]:
    """Return weights that make each class a pole; of two exclusive classes only the second."""
    alone = np.eye(classes).tolist()
    return alone[1:] if exclusive and classes == 2 else alone


def ranked_units(influence: np.ndarray) -> list[int]:
    """Return the units with any influence [P, H], ranked by their largest on any pole."""
    largest = np.abs(influence).max(0)
    order = np.argsort(-largest, kind="stable")
    return [int(unit) for unit in order if largest[unit] > 0]


class SeveralUnits:
    """A classifier that uses many units; its `neuron` is the one that influences it most."""

    @property
    def influence(self) -> np.ndarray:
        """By how much a standard deviation of each unit changes each pole: float64 [P, H]."""
        raise NotImplementedError

    @property
    def neuron(self) -> int:
        """The unit that influences it most."""
        return self._leading[0]

    @property
    def polarity(self) -> int:
        """1 if a high value of that unit raises the last pole (praise), else -1."""
        return self._leading[1]

    @cached_property
    def _leading(self) -> tuple[int, int]:
        influence = self.influence
        unit = int(np.abs(influence).max(0).argmax())
        return unit, -1 if influence[-1, unit] < 0 else 1

    @property
    def neuron_column(self) -> int:
        """The feature with that unit's last state: the features begin with the last states."""
        return self.neuron
