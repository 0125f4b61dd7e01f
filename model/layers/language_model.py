"""The language model: embed tokens, run the layers, predict the next token.

Tokens are bytes, or the subword tokens of a SentencePiece vocabulary. Shape letters as in cell.py.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlstm_sentiment.engine.architecture import Architecture
from mlstm_sentiment.errors import check_choice

from ..kernels.cores import follow_fork, follow_quota
from ..state import DTYPES, State, accumulation_dtype
from .config import ANY_CELL, ModelConfig
from .layer import PerGateParameters, RecurrentLayer

# Most logits held at once while scoring: 2^23 floats (32 MB), e.g. 256 rows x 128 tokens x 256
# bytes.
MOST_LOGITS = 1 << 23


def layer_of(cell: str) -> type[RecurrentLayer]:
    """Return the class of the layers of a cell, one of `Cell`."""
    match cell:
        case "mlstm":
            from .mlstm import MlstmLayer

            return MlstmLayer
        case "lstm" | "gru":
            from .peers import GruLayer, LstmLayer

            return LstmLayer if cell == "lstm" else GruLayer
        case "transformer":
            from .transformer import TransformerLayer

            return TransformerLayer
    raise ValueError(f"no cell {cell!r}")


class Weights(NamedTuple):
    """The weights for the forward pass: weight norm applied, cast to the compute dtype."""

    layers: list[Any]
    table: Tensor  # [V, 5H], or [V, E]: the input of the first layer for each token
    w_out: Tensor  # [V, H]
    b_out: Tensor  # [V], accumulation dtype


class LanguageModel(nn.Module):
    """Predicts the next token, and carries its state from one window to the next.

    config: the architecture. compute_dtype: of the products; None: the parameters' own. Parameters
    stay fp32 (master weights) and are cast once per window. They are drawn from torch's global
    generator, as those of torch's own modules are; `build_model` takes a seed, `load_model` reads
    trained weights.

        model = build_model(ModelConfig(hidden_size=64), seed=1)
        tokens = torch.tensor([list(b"so good")])  # [B, T]
        logits, state = model(tokens, model.initial_state(1))  # [B, T, V]
    """

    def __init__(self, config: ModelConfig, compute_dtype: torch.dtype | None = None):
        super().__init__()
        follow_fork()
        self.config = config
        self.compute_dtype = compute_dtype
        self.embedding = nn.Embedding(config.resolved_vocabulary_size, config.embedding_size)
        layer = layer_of(config.cell)
        self.layers = nn.ModuleList(layer(config, index) for index in range(config.layers))
        self.decoder = nn.Linear(config.hidden_size, config.resolved_vocabulary_size)
        if not self.embedding.weight.is_meta:  # weights on the meta device have no values
            self.reset_parameters()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        follow_fork()

    def set_precision(self, precision: str) -> None:
        """Set the number format of the matrix products, whatever the model was trained in.

        precision: "fp32", "bf16" or "fp16". Raises InputError for any other.
        """
        check_choice("precision", precision, DTYPES)
        self.compute_dtype = DTYPES[precision]

    def reset_parameters(self) -> None:
        """Draw every parameter from torch's global generator."""
        self.embedding.reset_parameters()
        for layer in self._stack:
            layer.reset_parameters()
        self.decoder.reset_parameters()
        nn.init.zeros_(self.decoder.bias)

    @property
    def _stack(self) -> list[RecurrentLayer]:
        return [cast(RecurrentLayer, layer) for layer in self.layers]

    def per_gate_parameters(self) -> PerGateParameters:
        """Return the parameters, with each `splittable` matrix cut into its four gates."""
        split = [matrix for layer in self._stack for matrix in layer.splittable()]
        return PerGateParameters(self.parameters(), split)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the products."""
        return self.compute_dtype or self.embedding.weight.dtype

    @property
    def implementation(self) -> str:
        """What computes the recurrence on this machine; InputError if the config's cannot."""
        return self._stack[0].implementation(self.dtype)

    def check_backend(self) -> None:
        """Raise InputError if the config names an implementation that cannot run here."""
        if self.config.backend not in ANY_CELL:  # for the others, nothing is compiled yet
            self._stack[0].implementation(self.dtype)

    def initial_state(
        self,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> State:
        """Return the zero state, before any text.

        batch_size: B. dtype: of the products; None: the model's. device: None: the parameters'.
        Returns tensors [L, B, n].
        """
        _follow_fork()
        dtype, device = dtype or self.dtype, device or self.embedding.weight.device
        return State.stack(
            [layer.initial_state(batch_size, dtype, device) for layer in self._stack]
        )

    def prepare_weights(self, leaves: PerGateParameters | None = None) -> Weights:
        """Apply weight norm and cast, once for many calls of `forward`, `hidden` and `step`.

        leaves: from `per_gate_parameters`; they receive the gradients of the split matrices.
        """
        _follow_fork()
        dtype = self.dtype
        layers = [layer.prepare_weights(dtype, leaves=leaves) for layer in self._stack]
        table = self._stack[0].project_vocabulary(self.embedding.weight.to(dtype), layers[0])
        b_out = self.decoder.bias.to(accumulation_dtype(dtype))
        w_out = self.decoder.weight.to(dtype)
        return Weights(layers, table, w_out, b_out)

    def hidden(
        self, tokens: Tensor, state: State, weights: Weights | None = None
    ) -> tuple[Tensor, State]:
        """Return the last layer's h [T, B, H] for tokens [B, T], and the state; see `forward`."""
        _follow_fork()
        _check_window(tokens, state)
        weights = weights or self.prepare_weights()
        first, *deeper = self._stack
        x, after = first.forward_tokens(
            tokens.long().t(), weights.table, state.layer(0), weights.layers[0]
        )
        states = [after]
        for index, layer in enumerate(deeper, start=1):
            x, after = layer.forward(x, state.layer(index), weights.layers[index])
            states.append(after)
        return x, State.stack(states)

    def forward(
        self, tokens: Tensor, state: State, weights: Weights | None = None
    ) -> tuple[Tensor, State]:
        """Predict the token after each of tokens [B, T].

        tokens: integers of any dtype, from 0 to V - 1. state: of B lanes, from `initial_state` or
        an earlier call. weights: from `prepare_weights`; None: prepared for this call. Returns
        logits [B, T, V] in the accumulation dtype, and the state after the last token. Raises
        TypeError for tokens of another dtype, ValueError if T is 0 or the state has another number
        of lanes.
        """
        weights = weights or self.prepare_weights()
        h, state = self.hidden(tokens, state, weights)
        return self.decode(h, weights).transpose(0, 1), state

    def loss(
        self,
        tokens: Tensor,
        targets: Tensor,
        state: State,
        dropout_factors: Tensor | None = None,
        leaves: PerGateParameters | None = None,
        gradient_scale: float | Tensor = 1.0,
    ) -> tuple[Tensor, State]:
        """Return the nats of targets given tokens, summed over all, and the state after.

        tokens, state: as for `forward`. targets: as tokens, or IGNORED.
        dropout_factors: [B, H], 0 or 1 / (1 - dropout); they multiply the decoder's input, the same
        for the whole window.
        leaves: tensors that receive the gradients, if not the parameters.
        gradient_scale: multiplies the gradients, not the nats, e.g. 1 / number of targets.
        """
        from .cross_entropy import linear_cross_entropy  # with the kernels, as the layers

        weights = self.prepare_weights(leaves)
        h, state = self.hidden(tokens, state, weights)  # [T, B, H]
        if dropout_factors is not None:
            h = h * dropout_factors
        nats = linear_cross_entropy(
            h.flatten(0, 1),
            weights.w_out,
            weights.b_out,
            targets.t().flatten(),
            gradient_scale=gradient_scale,
        )
        return nats, state

    def decode(self, h: Tensor, weights: Weights) -> Tensor:
        """Return logits [..., V] for the last layer's h [..., H]."""
        return F.linear(h, weights.w_out).to(weights.b_out.dtype).add_(weights.b_out)

    def decode_in_pieces(self, h: Tensor, weights: Weights) -> Iterator[tuple[slice, Tensor]]:
        """Yield (slice of the T steps, logits [t, B, V]) for h [T, B, H], in order.

        Each piece has at most `MOST_LOGITS` numbers, but at least one step.
        """
        T, B, _ = h.shape
        steps = max(MOST_LOGITS // (B * len(weights.w_out)), 1)
        for start in range(0, T, steps):
            piece = slice(start, start + steps)
            yield piece, self.decode(h[piece], weights)


def _follow_fork() -> None:
    if not torch.compiler.is_dynamo_compiling():
        follow_fork()


def _check_window(tokens: Tensor, state: State) -> None:
    """Raise TypeError or ValueError unless a state of B lanes can read tokens [B, T].

    torch's LSTM and GRU would read and write memory beyond a smaller state, and the reference
    would start every row from the state of a single lane.
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
    """Return a freshly initialised model.

    seed: the same seed gives the same parameters. compute_dtype: as for `LanguageModel`.

    >>> model = build_model(ModelConfig(hidden_size=64), seed=1)
    >>> model.initial_state(2).h.shape
    torch.Size([1, 2, 64])
    """
    follow_quota()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not those of the GPUs, too
        return LanguageModel(config, compute_dtype)


def empty_model(config: ModelConfig, compute_dtype: torch.dtype | None = None) -> LanguageModel:
    """Return a model on the meta device: shapes without memory."""
    with torch.device("meta"), _SkipInitialization():
        return LanguageModel(config, compute_dtype)


def parameter_count(architecture: Architecture) -> int:
    """Return how many parameters a model of this architecture has."""
    model = empty_model(ModelConfig.of(architecture))
    return sum(parameter.numel() for parameter in model.parameters())


def product_weights(model: LanguageModel) -> dict[str, nn.Parameter]:
    """Return the matrices by which every token is multiplied, by name."""
    named = model.named_parameters()
    return {name: p for name, p in named if p.ndim == 2 and name != "embedding.weight"}


class _SkipInitialization(TorchFunctionMode):
    """Disables torch.nn.init.

    For tensors on the meta device, torch would draw numbers in Python code that imports its
    compiler, which takes longer than the rest of loading a model.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__module__", "") == nn.init.__name__:
            return options["tensor"] if "tensor" in options else args[0]
        return func(*args, **options)
