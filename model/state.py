"""What the model remembers between tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

StateName = Literal["cell", "hidden"]
IGNORED = -100  # the target of a token that does not count, as in torch
# Number format of the matrix products, by the name of a precision; see also `accumulation_dtype`.
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name of a dtype without "torch.", such as float32."""
    return str(dtype).removeprefix("torch.")


class State:
    """What a model carries from one window to the next: named tensors, [L, B, n] each.

    A layer has its own part, [B, n] each. All zeros is the state before any text. Every cell has
    `h`, its output after the last token, from which the next token is predicted. LSTMs also have
    the cell state `c`. A cell may keep more tensors, under names that only its own file knows.

        state = model.initial_state(2)  # of 2 lanes
        _, state = model(tokens, state)
        state.features("cell")[-1]  # [B, H], the last layer's

    Parts that products read have exactly the dtype of those products, so that carrying a state from
    window to window rounds nothing. An mLSTM's `c` is fp32 (fp64 in an fp64 model).
    """

    def __init__(self, h: Tensor, c: Tensor | None = None, **others: Tensor):
        tensors = {"h": h, "c": c, **others}
        self._tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    @property
    def h(self) -> Tensor:
        return self._tensors["h"]

    @property
    def c(self) -> Tensor:
        return self._tensors["c"]

    @property
    def lanes(self) -> int:
        """B, rows of the batch."""
        return self.h.shape[-2]

    def tensors(self) -> Mapping[str, Tensor]:
        """Return every part by its name, as a checkpoint keeps it."""
        return self._tensors

    @staticmethod
    def dtype_of_products(tensors: Mapping[str, Tensor]) -> torch.dtype | None:
        """Return the dtype of products with which a state was saved; None if it is unclear.

        It is the dtype of h, which the products of every cell read.
        """
        h = tensors.get("h")
        return h.dtype if h is not None and h.dtype in DTYPES.values() else None

    def features(self, name: StateName) -> Tensor:
        """Return the tensor that features are taken from, [L, B, H].

        "hidden" is h; "cell" is c, or h in a cell whose only memory is its output.
        """
        return self._tensors[self._source(name)]

    def is_output(self, name: StateName) -> bool:
        """Return whether features are taken from h, which a window returns for every token."""
        return self._source(name) == "h"

    def _source(self, name: StateName) -> str:
        return "c" if name == "cell" and "c" in self._tensors else "h"

    def each(self, change: Callable[[Tensor], Tensor]) -> "State":
        return State(**{name: change(tensor) for name, tensor in self._tensors.items()})

    def detach(self) -> "State":
        """Return the state without its gradient: truncated back-propagation through time."""
        return self.each(Tensor.detach)

    def reset(self, lanes: Tensor) -> "State":
        """Return the state with lanes zeroed where the bool mask [B] is true."""
        keep = ~lanes.unsqueeze(-1)
        # where, not a product: a product keeps the NaN of a state that has overflowed.
        return self.each(lambda tensor: tensor.where(keep, 0))

    def select(self, lanes: slice | Tensor) -> "State":
        """Return some lanes: those of a slice (a view), or those of an index, in its order.

        lanes: a slice, or whole numbers [b], each from 0 to B - 1.
        """
        if isinstance(lanes, slice):
            return self.each(lambda tensor: tensor[..., lanes, :])
        return self.each(lambda tensor: tensor.index_select(-2, lanes))

    @staticmethod
    def join(states: "Sequence[State]") -> "State":
        """Join states of some lanes each."""
        return states[0] if len(states) == 1 else _together(states, lambda p: torch.cat(p, dim=-2))

    @staticmethod
    def stack(layers: "Sequence[State]") -> "State":
        """Stack the states of the layers: [B, n] each becomes [L, B, n]."""
        return _together(layers, torch.stack)

    def layer(self, index: int) -> "State":
        """Return one layer's state, [B, n] each, without a copy."""
        return self.each(lambda tensor: tensor[index])

    def clamp(self, name: StateName, layer: int, unit: int, value: float) -> "State":
        """Return the state [L, B, n] with one unit, as `features` reads it, set to a value."""
        tensor = self.features(name).clone()
        tensor[layer, :, unit] = value
        return State(**{**self._tensors, self._source(name): tensor})

    def like(self, other: "State") -> "State":
        """Return a copy with each part on the device and in the dtype of another state's part."""
        copies = {
            name: tensor.to(other[name].device, other[name].dtype, copy=True)
            for name, tensor in self._tensors.items()
        }
        return State(**copies)


def _together(states: Sequence[State], join: Callable[[list[Tensor]], Tensor]) -> State:
    names = states[0].tensors()
    return State(**{name: join([state[name] for state in states]) for name in names})


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of gates, cell state and loss for products in `dtype`."""
    return torch.promote_types(dtype, torch.float32)


def look_up(indices: Tensor, table: Tensor) -> Tensor:
    """Return the rows of a table [R, E] at whole numbers [T, B] below R: [T, B, E].

    In backward, the gradients of a row add up in the accumulation dtype. torch adds them in the
    table's dtype; in 16 bits a sum of many terms would stop growing.
    """
    wide = table.to(accumulation_dtype(table.dtype))
    return F.embedding(indices, wide).to(table.dtype)
