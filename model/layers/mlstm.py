"""The multiplicative LSTM as a layer: its parameters, weight norm, and a window through it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..fused.cuda.graphs import without_graphs
from ..fused.weight_gradients import PostponedProducts, join
from ..fused.window import RecurrentWeights, Window
from ..state import State, accumulation_dtype
from .gate_leaves import GateLeaves
from .layer import RecurrentLayer
from .recurrence import Backend, named, pack, projected, recur
from .weight_norm import apply_weight_norm

if TYPE_CHECKING:
    from ..language_model import ModelConfig

# Up to this many tokens, each is projected once. On CUDA, adding up the gradients of their rows
# costs a product with all of them.
MOST_TABULATED = 1024


class MlstmWeights(NamedTuple):
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
    settings = ("segments", "orthogonal")
    takes_integers = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        weight_norm: bool,
        backend: Backend,
        segments: int = 1,
        orthogonal: bool = False,
    ):
        super().__init__()
        H = hidden_size
        self.masks: dict[str, Tensor] = {}  # of a training window
        self.backend, self.segments, self.orthogonal = backend, segments, orthogonal
        self.w_x = nn.Parameter(torch.empty(4 * H, input_size))
        self.w_h = nn.Parameter(torch.empty(4 * H, H))
        self.w_mx = nn.Parameter(torch.empty(H, input_size))
        self.w_mh = nn.Parameter(torch.empty(H, H))
        self.b = nn.Parameter(torch.empty(4 * H))
        for name in ("x", "h", "mx", "mh"):
            rows = getattr(self, f"w_{name}").shape[0]
            gain = nn.Parameter(torch.empty(rows)) if weight_norm else None
            self.register_parameter(f"g_{name}", gain)

    @classmethod
    def make(cls, config: "ModelConfig", index: int) -> Self:
        """Return a layer as the config asks for."""
        return cls(
            config.input_size(index),
            config.hidden_size,
            weight_norm=config.weight_norm,
            backend=config.backend,
            segments=config.segments,
            orthogonal=config.orthogonal,
        )

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw U(-1/sqrt(H), 1/sqrt(H)), as Puri et al.'s code did; the gain starts as ||v||.

        With `orthogonal`, w_mh and each gate's part of w_h are orthogonal matrices instead.
        """
        bound = self.w_mh.shape[0] ** -0.5
        H = self.w_mh.shape[0]
        with torch.no_grad():
            for parameter in (self.w_x, self.w_h, self.w_mx, self.w_mh, self.b):
                parameter.uniform_(-bound, bound)
            if self.orthogonal:
                for block in (self.w_mh, *self.w_h.split(H)):
                    nn.init.orthogonal_(block)
            self.b[H : 2 * H] += forget_gate_bias
            for name in ("x", "h", "mx", "mh"):
                gain = getattr(self, f"g_{name}")
                if gain is not None:
                    gain.copy_(getattr(self, f"w_{name}").norm(dim=1))

    def splittable(self) -> list[nn.Parameter]:
        """Return w_h; with segments nothing: each would have to keep its gradient's factors."""
        return [] if self.segments > 1 else [self.w_h]

    def under_weight_norm(self) -> list[nn.Parameter]:
        """Return all four matrices, or none."""
        return [] if self.g_h is None else [self.w_x, self.w_h, self.w_mx, self.w_mh]

    def fold(
        self, dtype: torch.dtype, *, integers: bool = False, leaves: GateLeaves | None = None
    ) -> MlstmWeights:
        """Apply the weight norm and cast: in training for each window, in inference only once."""
        w_x = torch.cat([self._normed("mx"), self._normed("x")]).to(dtype)
        b = self.b.to(accumulation_dtype(dtype))
        if leaves is not None and (gates := leaves.of(self.w_h)):
            return MlstmWeights(w_x, self._with_gradients_one_by_one(dtype, b, gates))
        w_mh, w_h = self._normed("mh"), self._normed("h")
        if self.training and self.masks:
            w_mh, w_h = w_mh * self.masks["mh"], w_h * self.masks["h"]
        w_mh, w_h = w_mh.to(dtype), w_h.to(dtype)
        packed = pack(self.backend, w_mh, w_h, w_x, integers=integers)
        return MlstmWeights(w_x, RecurrentWeights(w_mh, w_h, b, packed, integers))

    def _with_gradients_one_by_one(
        self, dtype: torch.dtype, b: Tensor, gates: Sequence[Tensor]
    ) -> RecurrentWeights:
        """Build w_mh and w_h from leaves whose gradients backward computes one after the other."""
        postponed = PostponedProducts()
        w_mh = join([self._normed("mh").to(dtype)], self.w_mh, postponed.of_w_mh)
        normed = (gate.to(dtype) for gate in self._normed_gates(gates))
        w_h = join(normed, self.w_h, postponed.of_w_h)
        return RecurrentWeights(w_mh, w_h, b, postponed=postponed)

    def _normed(self, name: str) -> Tensor:
        return apply_weight_norm(getattr(self, f"w_{name}"), getattr(self, f"g_{name}"))

    def _normed_gates(self, gates: Sequence[Tensor]) -> Iterator[Tensor]:
        gain: Tensor | None = self.get_parameter("g_h") if self.g_h is not None else None
        gains = [None] * 4 if gain is None else gain.chunk(4)
        for gate, gain in zip(gates, gains, strict=True):
            yield apply_weight_norm(gate, gain)

    def implementation(self, dtype: torch.dtype, *, integers: bool = False) -> str:
        """Name the implementation of the recurrence on this machine."""
        w_mh = self.w_mh.new_empty((len(self.w_mh), 0), dtype=dtype)
        return named(self.backend, w_mh, integers=integers)

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return h in the dtype of the products and c in the wider one."""
        h = torch.zeros(lanes, len(self.w_mh), dtype=dtype, device=device)
        return State(h, h.to(accumulation_dtype(dtype)))

    def run(self, x: Tensor, state: State, weights: MlstmWeights) -> tuple[Tensor, State]:
        """Project the whole window's input [T, B, E], and recur over it."""
        return self._recur(Window(x, state, weights.recurrent, w_x=weights.w_x))

    def tabulate(self, embedding: Tensor, weights: MlstmWeights) -> Tensor:
        """Project each of the V tokens once, since a window repeats them: [V, 5H].

        With more than MOST_TABULATED tokens a window repeats few. They are then projected as they
        occur, and the table is their embedding [V, E].
        """
        if len(embedding) > MOST_TABULATED:
            return embedding
        return F.linear(embedding, weights.w_x)

    def read(
        self, tokens: Tensor, table: Tensor, state: State, weights: MlstmWeights
    ) -> tuple[Tensor, State]:
        """Recur over the table's rows; or look tokens [T, B] up and project them first."""
        if len(table) > MOST_TABULATED:
            return super().read(tokens, table, state, weights)
        return self._recur(Window(table, state, weights.recurrent, tokens))

    def _recur(self, window: Window) -> tuple[Tensor, State]:
        if self.segments == 1 or not torch.is_grad_enabled():
            return recur(self.backend, window)
        h, state = [], window.state
        for segment in projected(self.backend, window).segments(self.segments):
            # Nothing in a segment is random.
            segment_h, state = checkpoint(
                without_graphs()(recur), self.backend, replace(segment, state=state),
                use_reentrant=False, preserve_rng_state=False,
            )  # fmt: skip
            h.append(segment_h)
        return torch.cat(h), state
