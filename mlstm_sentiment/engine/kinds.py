"""Which numbers of a model's states are the features of a text."""

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..errors import InputError, check_choice, checked_flag, is_whole
from .architecture import Architecture

Pooling = Literal["last", "mean", "max", "min"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
StateName = Literal["cell", "hidden"]


@dataclass(frozen=True, kw_only=True)
class FeatureKind:
    """Which F numbers of the state are a text's features; InputError for an unknown name.

    `featurize --help` says what each choice means; several are concatenated.
    """

    state: StateName = "cell"  # in a GRU or transformer both mean hidden
    pooling: Pooling | Sequence[Pooling] = "last"  # over all tokens, those of the frame included
    layers: Literal["last", "all"] | Sequence[int] = "last"  # from 0, the lowest
    tanh: bool = False  # of every state before pooling
    units: Sequence[int] | None = None  # of each layer, from 0, in this order; None: all

    def __post_init__(self) -> None:
        check_choice("state", self.state, get_args(StateName))
        checked_flag("tanh", self.tanh)
        if not isinstance(self.pooling, Collection):
            raise InputError(f"pooling is {self.pooling!r}; it must be a name or a list of names")
        poolings = self.poolings
        check_poolings(poolings)
        # Each kind has one spelling: kinds are compared, and appear in file names.
        object.__setattr__(self, "pooling", poolings if len(poolings) > 1 else poolings[0])
        for name in ("layers", "units"):
            if isinstance(indices := getattr(self, name), np.ndarray) and indices.ndim == 1:
                object.__setattr__(self, name, indices.tolist())

    @property
    def poolings(self) -> tuple[Pooling, ...]:
        return (self.pooling,) if isinstance(self.pooling, str) else tuple(self.pooling)

    def layers_of(self, architecture: Architecture) -> list[int]:
        """Return the layers read; InputError for one that the model does not have."""
        if isinstance(self.layers, str):
            choices = {"last": [architecture.layers - 1], "all": list(range(architecture.layers))}
            if self.layers not in choices:
                raise InputError(f"layers is {self.layers!r}; known: last, all, or a list")
            return choices[self.layers]
        return checked_indices("layer", self.layers, architecture.layers)

    def units_of(self, architecture: Architecture) -> list[int]:
        if self.units is None:
            return list(range(architecture.hidden_size))
        return checked_indices("unit", self.units, architecture.hidden_size)

    def size(self, architecture: Architecture) -> int:
        """Return F, numbers per text: units times layers times poolings."""
        width = len(self.layers_of(architecture)) * len(self.units_of(architecture))
        return width * len(self.poolings)

    def names(self, architecture: Architecture) -> list[str]:
        names = [f"unit{index}" for index in self.units_of(architecture)]
        layers = self.layers_of(architecture)
        if len(layers) > 1:
            names = [f"layer{layer}_{unit}" for layer in layers for unit in names]
        if len(self.poolings) > 1:
            names = [f"{pooling}_{name}" for pooling in self.poolings for name in names]
        return names

    def chosen(self, architecture: Architecture, reading: Any, precision: str) -> np.ndarray:
        """Return the features, float32 [N, F], from the states of all units of the layers.

        reading: a `Reading`. precision: of the products, for the InputError if one is not finite.
        """
        features: np.ndarray = reading.features(self.poolings)
        if self.units is not None:
            N, H = len(features), architecture.hidden_size
            by_layer = features.reshape(N, features.shape[1] // H, H)
            units = self.units_of(architecture)
            features = by_layer[:, :, units].reshape(N, by_layer.shape[1] * len(units))
        if not np.isfinite(features).all():
            raise InputError(
                "features become NaN or infinite: the model's weights are damaged, or too large "
                f"for products in {precision}"
            )
        return features


# Named choices; experiments/neuron/features.md compares them.
_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "papers": {"state": "cell", "pooling": ("last",)},
    "pooled": {"state": "cell", "pooling": ("last", "mean", "max", "min")},
}


def preset(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the fields of a `FeatureKind` by a preset's name; overrides that are not None win.

    Raises InputError for an unknown name.
    """
    check_choice("preset", name, _PRESETS)
    return {
        **_PRESETS[name],
        **{key: value for key, value in overrides.items() if value is not None},
    }


def check_poolings(poolings: Sequence[str]) -> None:
    """Raise InputError unless these are known poolings, each once, and at least one."""
    for pooling in poolings:
        check_choice("pooling", pooling, POOLINGS)
    if not poolings or len(set(poolings)) != len(poolings):
        raise InputError(f"pooling is {list(poolings)}; name each once, and at least one")


def checked_indices(what: str, values: Any, count: int) -> list[int]:
    """Return which units or layers are meant, numbered from 0: a list, or an array [n].

    Raises InputError for anything else, for one that a model of so many lacks, and for a repeated
    one.
    """
    is_list = isinstance(values, Collection | np.ndarray) and not isinstance(values, str)
    if not is_list or getattr(values, "ndim", 1) != 1 or not len(values):
        raise InputError(f"{what}s is {values!r}; it must be a list of whole numbers, at least one")
    for value in values:
        if not is_whole(value) or not 0 <= value < count:
            shown = reprlib.repr(value)
            raise InputError(f"{what} {shown}: the model has {what}s 0 to {count - 1}")
    if len(set(values)) != len(values):
        raise InputError(f"{what}s is {list(values)}; name each once")
    return [int(value) for value in values]


FINAL_CELL = FeatureKind()


def checked_request(
    architecture: Architecture,
    pooling: Collection[str],
    state: str,
    layers: Sequence[int] | None,
    units: Sequence[int] | None,
) -> tuple[list[int], list[int] | None]:
    """Return the layers and units whose states are wanted; InputError for what a model lacks.

    layers: None: the last. units: None: none.
    """
    L, H = architecture.layers, architecture.hidden_size
    chosen = checked_indices("layer", [L - 1] if layers is None else layers, L)
    picked = None if units is None else checked_indices("unit", units, H)
    if unknown := set(pooling) - set(POOLINGS):
        raise InputError(f"pooling {min(unknown)!r} is unknown; known: {', '.join(POOLINGS)}")
    check_choice("state", state, get_args(StateName))
    return chosen, picked


def check_tokens(texts: Sequence[np.ndarray], architecture: Architecture) -> None:
    """Raise InputError unless each text is an array of the model's tokens, [n]."""
    V = architecture.resolved_vocabulary_size
    for place, tokens in enumerate(texts):
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise InputError(
                f"tokens of text {place}, counted from 0, are {tokens.dtype} "
                f"{list(tokens.shape)}; they must be whole numbers [n]"
            )
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < V:
            raise InputError(
                f"text {place}, counted from 0, has tokens from {tokens.min()} to "
                f"{tokens.max()}; the model has 0 to {V - 1}"
            )
