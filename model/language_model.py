"""The language model: embed tokens, recur, predict the next one.

Bytes are its tokens, or the pieces of a SentencePiece vocabulary.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import InputError, checked_number, checked_whole, is_whole
from .fused.cores import compute_alone_after_forks, follow_quota
from .layers.gate_leaves import GateLeaves
from .layers.layer import RecurrentLayer
from .layers.mlstm import MlstmLayer
from .layers.ngrams import NgramMlstmLayer
from .layers.peers import GruLayer, LstmLayer, NormedGruLayer, NormedLstmLayer
from .layers.recurrence import Backend
from .layers.transformer import TransformerLayer
from .layers.words import WordMlstmLayer
from .state import DTYPES, State, accumulation_dtype

Cell = Literal[
    "mlstm",
    "mlstm_ngrams",
    "mlstm_words",
    "lstm",
    "lstm_weight_norm",
    "gru",
    "gru_weight_norm",
    "transformer",
]
Precision = Literal["fp32", "bf16", "fp16", "int8"]
LAYERS: dict[str, type[RecurrentLayer]] = {  # by `Cell`
    "mlstm": MlstmLayer,
    "mlstm_ngrams": NgramMlstmLayer,
    "mlstm_words": WordMlstmLayer,
    "lstm": LstmLayer,
    "lstm_weight_norm": NormedLstmLayer,
    "gru": GruLayer,
    "gru_weight_norm": NormedGruLayer,
    "transformer": TransformerLayer,
}

VOCABULARY_SIZE = 256  # V where bytes are the tokens
MOST_BIAS = 100  # of the forget gate, which is open or shut far below that
# Numbers that exist at once while texts are scored, 32 MB of them: of bytes, the logits after 128
# tokens in 256 rows.
MOST_LOGITS = 1 << 23
# Far above any real model. Below these limits shapes fit torch's integers, and even a malicious
# description is checked against its file at once.
MOST = {
    **dict.fromkeys(("hidden_size", "embedding_size", "vocabulary_size", "segments"), 1 << 20),
    **dict.fromkeys(("heads", "context", "word_buckets"), 1 << 20),
    "ngram_length": 1 << 5,
    "ngram_buckets": 1 << 16,  # so many numbers the hash has
    "layers": 1 << 10,
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Architecture of the language model, and the backend that computes it."""

    cell: Cell = "mlstm"
    """mlstm; mlstm_ngrams, an mLSTM that also reads the n-grams that end with each token;
    mlstm_words, which reads these and words; torch's LSTM, the papers' control; or another peer:
    torch's GRU, or a causal transformer of torch's layers. lstm_weight_norm and gru_weight_norm
    have the mLSTM's weight norm, too."""
    hidden_size: int = 256
    """H, units per layer."""
    embedding_size: int = 64
    """E, width of the embedding."""
    vocabulary_size: int | None = None
    """V, tokens of the tokenizer; if absent, the corpus's."""
    layers: int = 1
    """L, layers; the published models have 1."""
    heads: int = 4
    """A transformer's attention heads, each of H / heads units."""
    context: int = 256
    """C, how many positions before its own a transformer's layer attends to. Their keys and values
    are carried from window to window, so it may be longer than data.window."""
    ngram_length: int = 6
    """N, tokens of the longest n-gram that mlstm_ngrams reads; it reads all from two tokens on."""
    ngram_buckets: int = 16384
    """Vectors of E numbers that the n-grams of each length share."""
    word_buckets: int = 32768
    """Vectors of E numbers that the words so far share in mlstm_words; whole words have as many."""
    weight_norm: bool = True
    """Weight norm on the mLSTM's four matrices; of the other cells, those named so have it."""
    forget_gate_bias: float = 0.0
    """Added to the initial bias of the forget gate, in a GRU of the update gate; the published
    models add none, a transformer has no such gate."""
    orthogonal: bool = False
    """Start an mLSTM from orthogonal recurrent matrices; the published models drew them
    uniformly."""
    backend: Backend = "auto"
    """What computes the mLSTM's recurrence. auto and fused are the same: the fastest implementation
    that runs here. Training names it at its start, such as "compiled for matrix units" in bf16 on a
    CPU that has them (AMX). reference is the definition under autograd: many times slower, for
    checks."""
    segments: int = 1
    """Above 1, an mLSTM's window is cut into this many pieces, each computed again in backward: a
    third more products, and memory for the activations of one piece instead of all."""

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if (value := getattr(self, name)) is not None or name != "vocabulary_size":
                value = checked_whole(f"model.{name}", value, 1, most)
                object.__setattr__(self, name, value)  # the dataclass is frozen
        if self.cell not in get_args(Cell):
            raise InputError(f"model.cell is {self.cell!r}; known: {', '.join(get_args(Cell))}")
        self._check_settings_of_other_cells()
        LAYERS[self.cell].check(self)
        if self.backend not in get_args(Backend):
            known = ", ".join(get_args(Backend))
            raise InputError(f"model.backend is {self.backend!r}; known: {known}")
        if not isinstance(self.weight_norm, bool):
            raise InputError(f"model.weight_norm is {self.weight_norm!r}; true or false")
        bias = checked_number("model.forget_gate_bias", self.forget_gate_bias)
        if abs(bias) > MOST_BIAS:
            allowed = f"between {-MOST_BIAS} and {MOST_BIAS}"
            raise InputError(f"model.forget_gate_bias is {bias:g}; it must be {allowed}")

    def _check_settings_of_other_cells(self) -> None:
        mine = LAYERS[self.cell]
        own = mine.described_by.union(mine.settings)
        for cell, layer in LAYERS.items():
            for name in sorted(layer.described_by.union(layer.settings)):
                default = getattr(type(self), name)
                if name not in own and getattr(self, name) != default:
                    raise InputError(
                        f"model.{name} is {getattr(self, name)}, which model.cell {self.cell} does "
                        f"not have; leave it out, or set model.cell {cell}"
                    )

    @property
    def symbols(self) -> int:
        """V: `vocabulary_size`, or that of bytes if none is set."""
        return self.vocabulary_size or VOCABULARY_SIZE

    def input_size(self, index: int) -> int:
        """Return how many numbers layer `index` reads of each token: E, or H of the one before."""
        return self.hidden_size if index else self.embedding_size

    def for_vocabulary(self, size: int) -> "ModelConfig":
        """Return the config with a tokenizer's V; InputError if the config names another V."""
        if self.vocabulary_size not in (None, size):
            raise InputError(
                f"model.vocabulary_size is {self.vocabulary_size}, the corpus's tokenizer has "
                f"{size} tokens; leave the key out"
            )
        return replace(self, vocabulary_size=size)

    def architecture(self) -> dict[str, Any]:
        """Return the fields that the weights depend on: all but those of the computation.

        A model of bytes leaves V out: the first model files did not have it.
        """
        implied = {"vocabulary_size"} if self.symbols == VOCABULARY_SIZE else set()
        described = architecture_fields(self.cell) - implied
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
        LAYERS[self.cell].check_clamp(self, layer)


def architecture_fields(cell: object) -> set[str]:
    """Return the names of the fields that the weights of a cell depend on."""
    settings = (layer.settings for layer in LAYERS.values())
    of_any = (layer.described_by for layer in LAYERS.values())
    own = (layer.described_by for name, layer in LAYERS.items() if name == cell)
    names = {item.name for item in fields(ModelConfig)} - {"backend"}
    return names.difference(*settings, *of_any).union(*own)


class Weights(NamedTuple):
    """Every weight as the forward pass reads it: folded, cast to the compute dtype."""

    layers: list[Any]
    table: Tensor  # [V, 5H], or [V, E]: what the first layer reads for each token
    w_out: Tensor  # [V, H]
    b_out: Tensor  # [V], accumulation dtype


class LanguageModel(nn.Module):
    """A stack of layers that carry a state, between an embedding of V tokens and V logits.

    `compute_dtype` is the dtype of the products; None means the parameters' own. Parameters stay
    in theirs (fp32 master weights) and are cast once per window. They are drawn from torch's global
    generator, as those of torch's own modules are; `build_model` takes a seed.
    """

    def __init__(self, config: ModelConfig, compute_dtype: torch.dtype | None = None):
        super().__init__()
        compute_alone_after_forks()
        self.config = config
        self.compute_dtype = compute_dtype
        self.embedding_mask: Tensor | None = None
        self.multiplies_integers = False
        """Whether the recurrence's products are of 8-bit integers; `multiply_in` sets it."""
        self.embedding = nn.Embedding(config.symbols, config.embedding_size)
        layer = LAYERS[config.cell]
        self.layers = nn.ModuleList(layer.make(config, index) for index in range(config.layers))
        self.decoder = nn.Linear(config.hidden_size, config.symbols)
        if not self.embedding.weight.is_meta:  # there, weights to come have no values yet
            self.reset_parameters()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        compute_alone_after_forks()

    def multiply_in(self, precision: str) -> None:
        """Set the number format of the matrix products, whatever the model was trained in.

        precision: one of `Precision`. int8 is for inference: the recurrence's products are of 8-bit
        integers, all others in fp32. Raises InputError for an unknown precision, or one that the
        model's cell lacks.
        """
        known = get_args(Precision)
        if precision not in known:
            raise InputError(f"precision is {precision!r}; known: {', '.join(known)}")
        if precision == "int8" and not LAYERS[self.config.cell].takes_integers:
            raise InputError(
                f"precision int8 is for the products of an mLSTM, the model's cell is "
                f"{self.config.cell}; take fp32 or bf16"
            )
        self.multiplies_integers = precision == "int8"
        self.compute_dtype = DTYPES["fp32" if self.multiplies_integers else precision]

    def reset_parameters(self) -> None:
        """Draw every parameter from torch's global generator."""
        self.embedding.reset_parameters()
        for layer in self._stack:
            layer.reset_parameters(self.config.forget_gate_bias)
        self.decoder.reset_parameters()
        nn.init.zeros_(self.decoder.bias)

    @property
    def _stack(self) -> list[RecurrentLayer]:
        return [cast(RecurrentLayer, layer) for layer in self.layers]

    def gate_leaves(self) -> GateLeaves:
        """Return tensors that take the gradients in place of the parameters: see `GateLeaves`."""
        split = [matrix for layer in self._stack for matrix in layer.splittable()]
        return GateLeaves(self.parameters(), split)

    def under_weight_norm(self) -> list[nn.Parameter]:
        """Return the matrices whose rows have gains: the lengths of these rows change no output."""
        return [matrix for layer in self._stack for matrix in layer.under_weight_norm()]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the products."""
        return self.compute_dtype or self.embedding.weight.dtype

    @property
    def implementation(self) -> str:
        """The implementation of the recurrence on this machine."""
        return self._stack[0].implementation(self.dtype, integers=self.multiplies_integers)

    def initial_state(
        self,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> State:
        """Return the zero state, [L, B, n] each; dtype: of the products, if not the model's."""
        dtype, device = dtype or self.dtype, device or self.embedding.weight.device
        return State.stack(
            [layer.initial_state(batch_size, dtype, device) for layer in self._stack]
        )

    def fold(self, leaves: GateLeaves | None = None) -> Weights:
        """Prepare the weights once for many calls: inference, generation.

        leaves: tensors that take the gradients, if not the parameters.
        """
        dtype = self.dtype
        integers = self.multiplies_integers
        layers = [layer.fold(dtype, integers=integers, leaves=leaves) for layer in self._stack]
        embedding = self.embedding.weight
        if self.training and self.embedding_mask is not None:
            embedding = embedding * self.embedding_mask
        table = self._stack[0].tabulate(embedding.to(dtype), layers[0])
        b_out = self.decoder.bias.to(accumulation_dtype(dtype))
        return Weights(layers, table, self.decoder.weight.to(dtype), b_out)

    def hidden(
        self, tokens: Tensor, state: State, weights: Weights | None = None
    ) -> tuple[Tensor, State]:
        """Read tokens [B, T]; return the last layer's h [T, B, H] and the state after it.

        Raises TypeError and ValueError as `forward` does.
        """
        _check_window(tokens, state)
        weights = weights or self.fold()
        first, *deeper = self._stack
        x, after = first.read(tokens.long().t(), weights.table, state.layer(0), weights.layers[0])
        states = [after]
        for index, layer in enumerate(deeper, start=1):
            x, after = layer.run(x, state.layer(index), weights.layers[index])
            states.append(after)
        return x, State.stack(states)

    def forward(
        self, tokens: Tensor, state: State, weights: Weights | None = None
    ) -> tuple[Tensor, State]:
        """Predict the token after each of tokens [B, T].

        tokens: integers of any dtype, from 0 to V - 1. state: from `initial_state` or an earlier
        call, of as many lanes. Returns logits [B, T, V] in the accumulation dtype and the state
        after the last one. Raises TypeError for tokens of another dtype, ValueError if T is 0 or
        if the state has another number of lanes.
        """
        weights = weights or self.fold()
        h, state = self.hidden(tokens, state, weights)
        return self.decode(h, weights).transpose(0, 1), state

    def decode(self, h: Tensor, weights: Weights) -> Tensor:
        """Return the logits [..., V] that follow from the last layer's h [..., H]."""
        return F.linear(h, weights.w_out).to(weights.b_out.dtype) + weights.b_out

    def decode_in_pieces(self, h: Tensor, weights: Weights) -> Iterator[tuple[slice, Tensor]]:
        """Yield (which of the T steps, logits [t, B, V]) for h [T, B, H], in order.

        A piece has as many steps as fit into `MOST_LOGITS` numbers, but at least one.
        """
        T, B, _ = h.shape
        steps = max(MOST_LOGITS // (B * len(weights.w_out)), 1)
        for start in range(0, T, steps):
            piece = slice(start, start + steps)
            yield piece, self.decode(h[piece], weights)

    def step(
        self, token: Tensor, state: State, weights: Weights | None = None
    ) -> tuple[Tensor, State]:
        """Read one token per row, token [B]; return logits [B, V] and the state after it."""
        logits, state = self.forward(token.unsqueeze(1), state, weights)
        return logits.squeeze(1), state


def _check_window(tokens: Tensor, state: State) -> None:
    """Raise TypeError or ValueError unless a state of B lanes can read tokens [B, T].

    torch's LSTM and GRU would read and write memory beyond a smaller state, and the reference
    would read every row from the state of a single lane.
    """
    if tokens.dtype.is_floating_point or tokens.dtype.is_complex or tokens.dtype == torch.bool:
        raise TypeError(f"tokens are {tokens.dtype}; they must be whole numbers, such as int64")
    if tokens.dim() != 2 or tokens.shape[1] == 0:
        raise ValueError(f"tokens are {list(tokens.shape)}; they must be [B, T], T at least 1")
    if len(tokens) != state.lanes:
        raise ValueError(
            f"tokens have {len(tokens)} rows, the state has {state.lanes} lanes; "
            f"initial_state({len(tokens)}) fits"
        )


def build_model(
    config: ModelConfig, seed: int, compute_dtype: torch.dtype | None = None
) -> LanguageModel:
    """Build a freshly initialised model: the same seed, the same parameters.

    From then on torch's threads follow the quota on cores, unless their number was set explicitly.
    """
    follow_quota()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(config, compute_dtype)


def untrained_like(model: LanguageModel, seed: int) -> LanguageModel:
    """Return a model of the same shape, on the same device, that has learned nothing."""
    untrained = build_model(model.config, seed, model.compute_dtype).eval()
    return untrained.to(model.embedding.weight.device)
