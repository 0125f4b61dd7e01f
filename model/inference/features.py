"""Texts to features: the state of the model after it has processed them."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError, is_whole
from ..layers.config import ModelConfig
from ..layers.language_model import LanguageModel, Weights
from ..state import IGNORED, State, StateName, summation_dtype
from ..text.split import RaggedBatch, ragged_batches

Pooling = Literal["last", "mean", "max", "min"]


@dataclass(frozen=True, kw_only=True)
class FeatureKind:
    """Which F numbers of the state are a text's features; InputError for an unknown name."""

    state: StateName = "cell"
    """Part of the state; the papers take the cell. In a GRU or transformer both mean hidden."""
    pooling: Pooling | Sequence[Pooling] = "last"
    """last: the state after the last token; mean, max, min: over the states after all tokens,
    including those that the text profile adds around the text; several are concatenated. A token is
    a byte, or a subword token if the model has a vocabulary."""
    layers: Literal["last", "all"] | Sequence[int] = "last"
    """Numbered from 0, the lowest; several are concatenated."""
    tanh: bool = False
    """Apply tanh to every state before pooling, as the text of Radford et al. says; their code does
    not."""
    units: Sequence[int] | None = None
    """Which units of each layer, numbered from 0, in this order; if absent, all."""

    def __post_init__(self) -> None:
        if self.state not in get_args(StateName):
            raise InputError(f"state is {self.state!r}; known: {', '.join(get_args(StateName))}")
        if not isinstance(self.tanh, bool | np.bool_):
            raise InputError(f"tanh is {self.tanh!r}; True or False")
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
        """How states become features, in the order of the features."""
        return (self.pooling,) if isinstance(self.pooling, str) else tuple(self.pooling)

    def layers_of(self, config: ModelConfig) -> list[int]:
        """Return the layers read; InputError for one that the model does not have."""
        if isinstance(self.layers, str):
            choices = {"last": [config.layers - 1], "all": list(range(config.layers))}
            if self.layers not in choices:
                raise InputError(f"layers is {self.layers!r}; known: last, all, or a list")
            return choices[self.layers]
        chosen = _as_list("layers", self.layers)
        if not chosen or not all(is_whole(n) and 0 <= n < config.layers for n in chosen):
            raise InputError(
                f"layers is {chosen}; the model has {config.layers}, numbered from 0: name at "
                "least one of them"
            )
        _check_once("layers", chosen)
        return [int(number) for number in chosen]

    def units_of(self, config: ModelConfig) -> list[int]:
        """Return the units read; InputError for one that the model does not have."""
        if self.units is None:
            return list(range(config.hidden_size))
        chosen = _as_list("units", self.units)
        for unit in chosen:
            config.check_unit(unit, -1)
        if not chosen:
            raise InputError("units is empty; name at least one, or leave it out to take all")
        _check_once("units", chosen)
        return [int(unit) for unit in chosen]

    def size(self, config: ModelConfig) -> int:
        """Return F, numbers per text: units times layers times poolings."""
        return self.width(config) * len(self.poolings)

    def width(self, config: ModelConfig) -> int:
        """Return the numbers per text of one pooling: units times layers."""
        return len(self.layers_of(config)) * len(self.units_of(config))

    def names(self, config: ModelConfig) -> list[str]:
        """Return a name for each of the F numbers."""
        names = [f"unit{index}" for index in self.units_of(config)]
        layers = self.layers_of(config)
        if len(layers) > 1:
            names = [f"layer{layer}_{unit}" for layer in layers for unit in names]
        if len(self.poolings) > 1:
            names = [f"{pooling}_{name}" for pooling in self.poolings for name in names]
        return names

    def read(self, state: State, layers: list[int], units: list[int]) -> Tensor:
        """Return the features of a single state: [B, width], fp32 or wider.

        layers, units: what `layers_of` and `units_of` returned.
        """
        chosen = state.features(self.state)
        columns = slice(None) if self.units is None else units  # a slice does not copy
        return self._finished(torch.cat([chosen[layer][:, columns] for layer in layers], dim=-1))

    def read_window(self, h: Tensor, units: list[int]) -> Tensor:
        """Return the features [T, B, width] after each of T tokens, from a window's h [T, B, H]."""
        return self._finished(h if self.units is None else h[..., units])

    def _finished(self, values: Tensor) -> Tensor:
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        return values.tanh() if self.tanh else values

    def needs_only_h(self, config: ModelConfig, state: State) -> bool:
        """Whether the h that a window returns contains all features of the state."""
        return state.is_output(self.state) and self.layers_of(config) == [config.layers - 1]


# Named choices; experiments/neuron/features.md compares them.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "papers": {"state": "cell", "pooling": ("last",)},
    "pooled": {"state": "cell", "pooling": ("last", "mean", "max", "min")},
}


def preset(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the fields of a `FeatureKind` by a preset's name; overrides that are not None win.

    Raises InputError for an unknown name.
    """
    if name not in PRESETS:
        raise InputError(f"preset is {name!r}; known: {', '.join(PRESETS)}")
    return {
        **PRESETS[name],
        **{key: value for key, value in overrides.items() if value is not None},
    }


def check_poolings(poolings: Sequence[str]) -> None:
    """Raise InputError unless these are known poolings, each once, and at least one."""
    names = get_args(Pooling)
    for pooling in poolings:
        if pooling not in names:
            raise InputError(f"pooling is {pooling!r}; known: {', '.join(names)}")
    if not poolings or len(set(poolings)) != len(poolings):
        raise InputError(f"pooling is {list(poolings)}; name each once, and at least one")


def _check_once(name: str, chosen: Sequence[Any]) -> None:
    if len(set(chosen)) != len(chosen):
        raise InputError(f"{name} is {list(chosen)}; name each once")


def _as_list(name: str, values: Any) -> list[Any]:
    """Return a list of numbers, from a NumPy array too."""
    # No generator: it is read again for each call.
    if (
        isinstance(values, str)
        or getattr(values, "ndim", 1) != 1
        or not isinstance(values, Collection)
    ):
        raise InputError(f"{name} is {values!r}; it must be a list of whole numbers")
    return list(values)


class Pool:
    """Pools features of rows while the model reads them; those of a row without tokens are 0."""

    def __init__(self, pooling: Pooling, rows: int, width: int, device: torch.device):
        self.pooling = pooling
        # A mean in fp32 would stop growing after some millions of tokens.
        dtype = summation_dtype(device) if pooling == "mean" else torch.float32
        self._values = torch.zeros(rows, width, dtype=dtype, device=device)
        self._counts = torch.zeros(rows, 1, dtype=dtype, device=device)
        self._begun = False

    def add(self, values: Tensor) -> None:
        """Take features [T, active, width] of the first `active` rows after their next T tokens."""
        T, active, _ = values.shape
        pooled = self._values[:active]
        if self.pooling == "mean":
            pooled += values.sum(0, dtype=pooled.dtype)
        elif self.pooling == "last":
            pooled.copy_(values[-1])
        else:
            extreme = values.amax(0) if self.pooling == "max" else values.amin(0)
            choose = torch.maximum if self.pooling == "max" else torch.minimum
            # All rows that have tokens are active at the first one.
            pooled.copy_(choose(pooled, extreme) if self._begun else extreme)
        self._counts[:active] += T
        self._begun = True

    def features(self) -> Tensor:
        if self.pooling == "mean":
            return (self._values / self._counts.clamp(min=1)).float()
        return self._values


class BitCounter:
    """Counts the bits that predicting the tokens of each row costs."""

    def __init__(self, sequences: Sequence[np.ndarray], b_out: Tensor):
        self._sequences = sequences  # the longest first
        nats = -F.log_softmax(b_out, dim=0)  # [V]: the zero state predicts by the bias alone
        first = [float(nats[s[0]]) if len(s) else 0.0 for s in sequences]
        self._nats = torch.tensor(first, dtype=summation_dtype(b_out.device), device=b_out.device)

    def add(self, logits: Tensor, start: int) -> None:
        """Add the logits [T, active, V] after token `start` of each row and the next T - 1."""
        T, active, _ = logits.shape
        targets = np.full((T, active), IGNORED, dtype=np.int64)
        for row, sequence in enumerate(self._sequences[:active]):
            following = sequence[start + 1 : start + 1 + T]
            targets[: len(following), row] = following
        each = F.cross_entropy(
            logits.flatten(0, 1),
            torch.from_numpy(targets).flatten().to(logits.device),
            ignore_index=IGNORED,
            reduction="none",
        )
        self._nats[:active] += each.view(T, active).sum(0, dtype=self._nats.dtype)

    def bits(self) -> np.ndarray:
        return (self._nats.cpu().double() / math.log(2)).numpy()


class ModelOutput(NamedTuple):
    """The result of reading N texts."""

    features: np.ndarray  # float32 [N, F]
    bits: np.ndarray  # float64 [N], what predicting all tokens of each text costs


FINAL_CELL = FeatureKind()


@torch.inference_mode()
def prepare_weights(model: LanguageModel) -> Weights:
    """Return a model's weights, packed for inference, to reuse between calls."""
    return model.prepare_weights()


def final_states(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    batch_size: int = 128,
    block: int = 128,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (indices, features) batch by batch, longest sequences first.

    sequences: tokens [n] each; `indices` are positions in this list. kind: which numbers of the
    state; by default F = H, the last layer's cell state after the last token, without the tanh of
    Radford et al.'s text, as in both released codes. batch_size, block: rows and tokens processed
    together; they change the speed, not the features. weights: from `prepare_weights`; None:
    prepared for this call. advance: called with the number of tokens processed since its last call,
    for a progress bar.

    Yields features float32 [rows, F]. Memory does not grow with the lengths. Raises InputError if a
    feature is not finite.
    """
    lengths = [len(sequence) for sequence in sequences]
    # Not around the yield: the caller sets its own modes.
    process = torch.inference_mode()(_process_batch)
    weights = weights or prepare_weights(model)
    for batch in ragged_batches(lengths, batch_size, block):
        yield batch.indices, process(model, weights, sequences, batch, kind, advance)


def features_in_order(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    batch_size: int = 128,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> np.ndarray:
    """Return the features of every sequence, float32 [N, F], in order; see `final_states`."""
    features = np.zeros((len(sequences), kind.size(model.config)), dtype=np.float32)
    options: dict[str, Any] = {"batch_size": batch_size, "weights": weights, "advance": advance}
    for indices, values in final_states(model, sequences, kind=kind, **options):
        features[indices] = values
    return features


def read_in_order(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    batch_size: int = 128,
    block: int = 128,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> ModelOutput:
    """Return the features as `features_in_order` does, and the bits that each sequence costs."""
    lengths = [len(sequence) for sequence in sequences]
    features = np.zeros((len(sequences), kind.size(model.config)), dtype=np.float32)
    bits = np.zeros(len(sequences))
    with torch.inference_mode():
        weights = weights or model.prepare_weights()
        for batch in ragged_batches(lengths, batch_size, block):
            costs = BitCounter([sequences[row] for row in batch.indices], weights.b_out)
            values = _process_batch(model, weights, sequences, batch, kind, advance, costs)
            features[batch.indices], bits[batch.indices] = values, costs.bits()
    return ModelOutput(features, bits)


def _process_batch(
    model: LanguageModel,
    weights: Weights,
    sequences: Sequence[np.ndarray],
    batch: RaggedBatch,
    kind: FeatureKind,
    advance: Callable[[int], object] | None,
    costs: BitCounter | None = None,
) -> np.ndarray:
    """Return float32 [rows, F]; add the bits of every prediction to `costs`, if given."""
    device = model.embedding.weight.device
    layers, units = kind.layers_of(model.config), kind.units_of(model.config)
    state = model.initial_state(len(batch.indices))
    of_window = kind.needs_only_h(model.config, state)
    width = kind.width(model.config)
    pools = [Pool(pooling, len(batch.indices), width, device) for pooling in kind.poolings]
    for start, stop, active in batch.spans:
        indices = batch.indices[:active]
        tokens = np.stack([sequences[index][start:stop] for index in indices]).astype(np.int64)
        # The recurrence returns only the last cell state, so cell states are pooled token by token.
        piece = stop - start if of_window or kind.poolings == ("last",) else 1
        state = state.select(slice(active))
        for place, part in enumerate(torch.from_numpy(tokens).to(device).split(piece, dim=1)):
            h, state = model.hidden(part, state, weights)  # [T, active, H]
            values = kind.read_window(h, units) if of_window else kind.read(state, layers, units)
            for pool in pools:
                pool.add(values if of_window else values.unsqueeze(0))
            if costs is not None:
                for steps, logits in model.decode_in_pieces(h, weights):
                    costs.add(logits, start + place * piece + steps.start)
        if advance is not None:
            advance(active * (stop - start))
    features = torch.cat([pool.features() for pool in pools], dim=1).cpu().numpy()
    if not np.isfinite(features).all():
        raise InputError(
            "features become NaN or infinite: the model's weights are damaged, or too large for "
            f"products in {str(model.dtype).removeprefix('torch.')}"
        )
    return features
