"""Parameters split by gate, so that the ranks can exchange one gate's gradient at a time."""

from collections.abc import Iterable

import torch
from torch import nn


class PerGateParameters:
    """Receives the gradients of some matrices gate by gate, instead of all at once.

    With it, one gate's gradient is sent while backward computes the next. The exchange of gradients
    makes one and passes it to every `prepare_weights`. The gates share the matrices' memory.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], split: Iterable[nn.Parameter]):
        """Split some of the parameters into their four gates."""
        self._gates = {p: [nn.Parameter(gate) for gate in p.detach().chunk(4)] for p in split}
        self.all = [leaf for p in parameters for leaf in self._gates.get(p, [p])]
        """The tensors that receive gradients: the gates, and the parameters not split, in order."""

    def of(self, parameter: nn.Parameter) -> list[nn.Parameter]:
        """Return the four gates of a matrix; none if it is not split."""
        return self._gates.get(parameter, [])

    def gather_gradients(self) -> None:
        """Move the gates' gradients to their matrices, after a backward pass."""
        for parameter, gates in self._gates.items():
            parameter.grad = torch.cat([gate.grad for gate in gates if gate.grad is not None])
            for gate in gates:
                gate.grad = None
