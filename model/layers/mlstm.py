"""The multiplicative LSTM as a layer: its parameters, weight norm, and a window through it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..kernels.weight_gradients import DeferredWeightGradients, join
from ..kernels.window import RecurrenceInput, RecurrentWeights
from ..state import State, accumulation_dtype
from .config import Backend, ModelConfig
from .layer import PerGateParameters, RecurrentLayer
from .recurrence import implementation_title, pack, recur

# Largest V whose tokens are all projected once per window. On CUDA, adding up the gradients of
# their rows costs a product with all of them.
MOST_TABULATED = 1024


class _MlstmWeights(NamedTuple):
    """The weights with the weight norm applied, cast to the compute dtype."""

    w_x: Tensor  # [5H, E]  input to m (first H rows) and to the gates i f u o
    recurrent: RecurrentWeights


class MlstmLayer(RecurrentLayer):
    """Multiplicative LSTM, optionally with weight norm per output unit on its four matrices.

    Weight norm (Salimans & Kingma 2016) as in OpenAI's encoder.py: w = g v / ||v||, with one g for
    each row of the [out, in] matrix. It is computed once per window, not per byte.
    """

    title = "mLSTM"
    feature = "cell state"

    def __init__(self, config: ModelConfig, index: int):
        super().__init__(config, index)
        H, input_size = config.hidden_size, config.input_size(index)
        self.w_x = nn.Parameter(torch.empty(4 * H, input_size))
        self.w_h = nn.Parameter(torch.empty(4 * H, H))
        self.w_mx = nn.Parameter(torch.empty(H, input_size))
        self.w_mh = nn.Parameter(torch.empty(H, H))
        self.b = nn.Parameter(torch.empty(4 * H))
        for name in ("x", "h", "mx", "mh"):
            rows = getattr(self, f"w_{name}").shape[0]
            gain = nn.Parameter(torch.empty(rows)) if config.weight_norm else None
            self.register_parameter(f"g_{name}", gain)

    def reset_parameters(self) -> None:
        """Draw U(-1/sqrt(H), 1/sqrt(H)), as Puri et al.'s code did; the gain starts as ||v||."""
        bound = self.w_mh.shape[0] ** -0.5
        H = self.w_mh.shape[0]
        with torch.no_grad():
            for parameter in (self.w_x, self.w_h, self.w_mx, self.w_mh, self.b):
                parameter.uniform_(-bound, bound)
            self.b[H : 2 * H] += self.config.forget_gate_bias
            for name in ("x", "h", "mx", "mh"):
                gain = getattr(self, f"g_{name}")
                if gain is not None:
                    gain.copy_(getattr(self, f"w_{name}").norm(dim=1))

    def splittable(self) -> list[nn.Parameter]:
        """Return w_h."""
        return [self.w_h]

    def prepare_weights(
        self, dtype: torch.dtype, *, leaves: PerGateParameters | None = None
    ) -> _MlstmWeights:
        """Apply weight norm and cast to the compute dtype; arguments as in `RecurrentLayer`."""
        w_x = torch.cat([self._normed("mx"), self._normed("x")]).to(dtype)
        b = self.b.to(accumulation_dtype(dtype))
        if leaves is not None and (gates := leaves.of(self.w_h)):
            return _MlstmWeights(w_x, self._with_per_gate_gradients(dtype, b, gates))
        w_mh, w_h = self._normed("mh").to(dtype), self._normed("h").to(dtype)
        packed = _pack(self.config.backend, w_mh, w_h, w_x)
        return _MlstmWeights(w_x, RecurrentWeights(w_mh, w_h, b, packed))

    def _with_per_gate_gradients(
        self, dtype: torch.dtype, b: Tensor, gates: Sequence[Tensor]
    ) -> RecurrentWeights:
        """Build w_mh and w_h so that backward computes the gates' gradients one after the other."""
        deferred = DeferredWeightGradients()
        w_mh = join([self._normed("mh").to(dtype)], self.w_mh, deferred.grad_w_mh)
        gains = self.get_parameter("g_h").chunk(4) if self.config.weight_norm else [None] * 4
        normed = (
            apply_weight_norm(gate, gain).to(dtype) for gate, gain in zip(gates, gains, strict=True)
        )
        w_h = join(normed, self.w_h, deferred.grad_w_h)
        return RecurrentWeights(w_mh, w_h, b, deferred=deferred)

    def _normed(self, name: str) -> Tensor:
        return apply_weight_norm(getattr(self, f"w_{name}"), getattr(self, f"g_{name}"))

    def implementation(self, dtype: torch.dtype) -> str:
        w_mh = self.w_mh.new_empty((len(self.w_mh), 0), dtype=dtype)
        return implementation_title(self.config.backend, w_mh)

    def forward(self, x: Tensor, state: State, weights: _MlstmWeights) -> tuple[Tensor, State]:
        """Project the inputs [T, B, E] of the window, then run the recurrence."""
        return _recur(
            self.config.backend, RecurrenceInput(x, state, weights.recurrent, w_x=weights.w_x)
        )

    def project_vocabulary(self, embedding: Tensor, weights: _MlstmWeights) -> Tensor:
        """Return the projected inputs of all V tokens, [V, 5H], since a window repeats them.

        If V is above MOST_TABULATED, a window repeats few tokens. They are then projected as they
        occur, and the table is their embedding [V, E].
        """
        return F.linear(embedding, weights.w_x) if len(embedding) <= MOST_TABULATED else embedding

    def forward_tokens(
        self, tokens: Tensor, table: Tensor, state: State, weights: _MlstmWeights
    ) -> tuple[Tensor, State]:
        """Same as forward(embedding[tokens]), from projected inputs where the table has them."""
        if len(table) > MOST_TABULATED:
            return super().forward_tokens(tokens, table, state, weights)
        return _recur(self.config.backend, RecurrenceInput(table, state, weights.recurrent, tokens))


def _recur(backend: Backend, window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute a window; torch.compile calls all but the reference instead of tracing it."""
    if backend != "reference" and torch.compiler.is_dynamo_compiling():
        from .untraced import recur_untraced

        return recur_untraced(backend, window.projected())
    return recur(backend, window)


def _pack(backend: Backend, *weights: Tensor) -> Tensor | None:
    if torch.compiler.is_dynamo_compiling():
        from .untraced import pack_untraced

        return pack_untraced(backend, *weights)
    return pack(backend, *weights)


def apply_weight_norm(v: Tensor, g: Tensor | None) -> Tensor:
    """Return g v / ||v|| by rows [out, in] (Salimans & Kingma 2016); v if there is no gain."""
    if g is None:
        return v
    return _NormedRows.apply(v, g)


class _NormedRows(torch.autograd.Function):
    """Weight norm by torch's kernels, one each way; autograd over the formula would need a dozen.

    torch turns rows of zeros (pruned units) into NaN. Here they stay zeros and have no gradient.
    """

    @staticmethod
    def forward(ctx: Any, v: Tensor, g: Tensor) -> Tensor:
        w, norms = torch._weight_norm_interface(v, g.unsqueeze(1), 0)
        pruned = norms == 0
        ctx.save_for_backward(v, g, norms.masked_fill(pruned, torch.inf))
        return w.masked_fill_(pruned, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_w: Tensor) -> tuple[Tensor, Tensor]:
        v, g, norms = ctx.saved_tensors
        gradients = torch.ops.aten._weight_norm_interface_backward
        d_v, d_g = gradients(d_w.contiguous(), v, g.unsqueeze(1), norms, 0)
        return d_v, d_g.squeeze(1)
