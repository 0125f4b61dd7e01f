"""The architecture of a model: its fields, their bounds, and what each cell allows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from ..bounds import SAVED, Bound, check_bounds
from ..errors import InputError, check_choice, is_whole

Cell = Literal["mlstm", "lstm", "gru", "transformer"]
_OF_TRANSFORMERS = ("context", "heads")  # fields of `Architecture` that no other cell has

VOCABULARY_SIZE = 256  # V where bytes are the tokens
# Far above any real model. Below these limits shapes fit torch's integers, and even a malicious
# description is checked against its file immediately.
_SIZE = Bound(min=1, max=1 << 20)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What the weights of a language model depend on, as `config.json` names it.

    Raises InputError for a value out of bounds or a field that the cell lacks.
    """

    cell: Cell = "mlstm"
    """mlstm; lstm, torch's LSTM, the papers' control; gru, torch's GRU; or transformer, a causal
    transformer of torch's layers."""
    hidden_size: Annotated[int, _SIZE] = 256
    """H, units per layer."""
    embedding_size: Annotated[int, _SIZE] = 64
    """E, width of the embedding."""
    vocabulary_size: Annotated[int | None, SAVED, _SIZE] = None
    """V, tokens of the tokenizer; if absent, the corpus's."""
    layers: Annotated[int, Bound(min=1, max=1 << 10)] = 1
    """L, layers; the published models have 1."""
    heads: Annotated[int, SAVED, _SIZE] = 4
    """A transformer's attention heads, each of H / heads units."""
    context: Annotated[int, SAVED, _SIZE] = 256
    """C, how many positions before its own a transformer's layer attends to. Their keys and values
    are carried from window to window, so it may be longer than data.window."""
    weight_norm: bool = True
    """Weight norm on the mLSTM's four matrices; the other cells have none."""
    forget_gate_bias: Annotated[float, Bound(min=-100, max=100)] = 0.0
    """Added to the initial bias of the forget gate, in a GRU of the update gate; the published
    models add none, a transformer has no such gate."""

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        for name, value in vars(self).items():
            if is_whole(value):  # perhaps NumPy's
                object.__setattr__(self, name, int(value))  # the dataclass is frozen
        check_choice("model.cell", self.cell, get_args(Cell))
        for name in () if self.cell == "transformer" else _OF_TRANSFORMERS:
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(
                    f"model.{name} is {getattr(self, name)}, which model.cell {self.cell} does "
                    "not have; leave it out, or set model.cell transformer"
                )
        if self.cell == "transformer" and self.hidden_size % (2 * self.heads):
            # Heads divide H, and rotary positions rotate pairs of units.
            raise InputError(
                f"model.hidden_size is {self.hidden_size}; a transformer of {self.heads} heads "
                f"needs a multiple of {2 * self.heads}"
            )
        if not isinstance(self.weight_norm, bool):
            raise InputError(f"model.weight_norm is {self.weight_norm!r}; true or false")

    @property
    def resolved_vocabulary_size(self) -> int:
        return self.vocabulary_size or VOCABULARY_SIZE

    def input_size(self, index: int) -> int:
        """Return the width of layer `index`'s input: E, or H of the layer below."""
        return self.hidden_size if index else self.embedding_size

    def for_vocabulary(self, size: int) -> Self:
        """Return the config with a tokenizer's V; InputError if the config names another V."""
        if self.vocabulary_size not in (None, size):
            raise InputError(
                f"model.vocabulary_size is {self.vocabulary_size}, the corpus's tokenizer has "
                f"{size} tokens; leave the key out"
            )
        return replace(self, vocabulary_size=size)

    @classmethod
    def of_description(cls, description: Mapping[str, Any], path: Path) -> Self:
        """Return the architecture that a `config.json` describes; InputError, with the path."""
        section = description.get("architecture")
        if not isinstance(section, dict):
            raise InputError(f"{path}: has no architecture section")
        keys = _architecture_fields(section.get("cell"))
        unknown, missing = set(section) - keys, keys - {"vocabulary_size"} - set(section)
        try:
            if unknown or missing:
                raise InputError(
                    f"architecture has unknown keys {sorted(unknown)}, lacks {sorted(missing)}"
                )
            return cls(**section)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def architecture(self) -> dict[str, Any]:
        """Return the fields that the weights depend on: all but those of the computation.

        A model of bytes leaves V out: the first model files did not have it.
        """
        implied = {"vocabulary_size"} if self.resolved_vocabulary_size == VOCABULARY_SIZE else set()
        described = _architecture_fields(self.cell) - implied
        return {name: value for name, value in asdict(self).items() if name in described}

    def check_unit(self, unit: int, layer: int) -> None:
        """Raise InputError if there is no such unit or layer; layer -1 is the last."""
        if not is_whole(unit) or not 0 <= unit < self.hidden_size:
            raise InputError(f"unit {unit!r}: the model has units 0 to {self.hidden_size - 1}")
        if not is_whole(layer) or not -self.layers <= layer < self.layers:
            raise InputError(f"layer {layer!r}: the model has layers 0 to {self.layers - 1}")

    def check_clamp(self, unit: int, layer: int) -> None:
        """Raise InputError if clamping a unit could not change any prediction."""
        self.check_unit(unit, layer)
        if self.cell == "transformer" and layer % self.layers != self.layers - 1:
            # A layer reads its own keys and values, not the last output of the layer before.
            raise InputError(
                f"layer {layer}: a transformer's units can be clamped only in its last layer; "
                "leave the layer out"
            )


def _architecture_fields(cell: object) -> set[str]:
    names = {item.name for item in fields(Architecture)}
    return names if cell == "transformer" else names.difference(_OF_TRANSFORMERS)
