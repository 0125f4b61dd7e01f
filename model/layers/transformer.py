"""A causal transformer as layers that carry a state: each attends to the C positions before.

A position attends to itself and to the C before it, whichever window they were read in, so the
result does not depend on how a text is cut into windows. Their keys and values are the layer's
state; as in an LSTM, no gradient flows into an earlier window. Memorizing Transformers (Wu et al.
2022) and Block-Recurrent Transformers (Hutchins et al. 2022) carry keys and values in this way.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..state import State, accumulation_dtype
from .config import ModelConfig
from .layer import PerGateParameters, RecurrentLayer

_WIDER = 4  # the feed-forward part's width, as a multiple of H
_SLOWEST = 10_000.0  # of the rotary angles' periods, as a multiple of the fastest

_LayerWeights = dict[str, Tensor]  # by the parameter's name


class TransformerLayer(RecurrentLayer):
    """One pre-norm block: attention with rotary positions (Su et al. 2021), then GELU units.

    The first layer maps the embedding's E to H. The last one normalises its output, which is h, the
    feature. The layers pass on the residual stream, in the accumulation dtype.

    state: h [B, H], keys and values [B, C * H] of the last C positions, the latest at the end, and
    count [B, 1], how many of them there are: fewer than C at a text's start.
    """

    title = "transformer"

    def __init__(self, config: ModelConfig, index: int):
        super().__init__(config, index)
        H = config.hidden_size
        self.hidden_size, self.heads, self.context = H, config.heads, config.context
        self.enter = None if index else nn.Linear(config.embedding_size, H, bias=False)
        self.norm_attention = nn.LayerNorm(H)
        self.attend = nn.Linear(H, 3 * H, bias=False)  # queries, keys, values
        self.attended = nn.Linear(H, H, bias=False)
        self.norm_feed = nn.LayerNorm(H)
        self.widen = nn.Linear(H, _WIDER * H, bias=False)
        self.narrow = nn.Linear(_WIDER * H, H, bias=False)
        self.norm_output = nn.LayerNorm(H) if index == config.layers - 1 else None

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1 / inputs). There is no forget gate.

        The variance of matrices that add to the residual stream is divided by the number of such
        additions, 2 L, as in GPT-2 (Radford et al. 2019).
        """
        for name, module in self.named_children():
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.Linear):
                addends = 2 * self.config.layers if name in ("attended", "narrow") else 1
                nn.init.normal_(module.weight, std=(module.in_features * addends) ** -0.5)

    def prepare_weights(
        self, dtype: torch.dtype, *, leaves: PerGateParameters | None = None
    ) -> _LayerWeights:
        """Cast matrices to the compute dtype, the norms' weights to the wider one."""
        wide = accumulation_dtype(dtype)
        return {name: p.to(dtype if p.ndim == 2 else wide) for name, p in self.named_parameters()}

    def implementation(self, dtype: torch.dtype) -> str:
        return "torch's scaled dot-product attention"

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        past = torch.zeros(lanes, self.context * self.hidden_size, dtype=dtype, device=device)
        return State(
            torch.zeros(lanes, self.hidden_size, dtype=dtype, device=device),
            keys=past,
            values=past.clone(),
            count=torch.zeros(lanes, 1, dtype=torch.long, device=device),
        )

    def forward(self, x: Tensor, state: State, weights: _LayerWeights) -> tuple[Tensor, State]:
        """Read x [T, B, E], or the residual stream [T, B, H] of the layer before.

        Returns h [T, B, H], of the last layer in the compute dtype, and the state after it.
        """
        dtype = weights["attend.weight"].dtype
        if self.enter is not None:
            x = F.linear(x, weights["enter.weight"]).to(accumulation_dtype(dtype))
        normed = self._norm("norm_attention", x, weights).to(dtype)
        queries, keys, values = F.linear(normed, weights["attend.weight"]).chunk(3, dim=-1)
        keys = self._with_past(state["keys"], keys)
        values = self._with_past(state["values"], values)
        attended = self._attention(queries.transpose(0, 1), keys, values, state["count"])
        x = x + F.linear(attended.transpose(0, 1), weights["attended.weight"])
        normed = self._norm("norm_feed", x, weights).to(dtype)
        wide = F.gelu(F.linear(normed, weights["widen.weight"]))
        x = x + F.linear(wide, weights["narrow.weight"])
        h = x if self.norm_output is None else self._norm("norm_output", x, weights).to(dtype)
        after = State(
            h[-1].to(dtype),
            keys=keys[:, -self.context :].flatten(1),
            values=values[:, -self.context :].flatten(1),
            count=(state["count"] + len(x)).clamp(max=self.context),
        )
        return h, after

    def _norm(self, name: str, x: Tensor, weights: _LayerWeights) -> Tensor:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias)

    def _with_past(self, past: Tensor, new: Tensor) -> Tensor:
        """Join the past [B, C * H] and the new positions [T, B, H] as [B, C + T, H]."""
        past = past.view(len(past), self.context, self.hidden_size)
        return torch.cat([past, new.transpose(0, 1)], dim=1)

    def _attention(self, queries: Tensor, keys: Tensor, values: Tensor, count: Tensor) -> Tensor:
        """Return [B, T, H] of queries [B, T, H] over keys and values [B, C + T, H]."""
        C, S = self.context, keys.shape[1]
        key = torch.arange(S, device=keys.device)  # positions, from the oldest of the past on
        query = key[C:, None]  # [T, 1]
        near = (key <= query) & (key >= query - C)  # [T, S]
        there = key >= C - count  # [B, S]
        rotations = _rotations(S, keys.shape[-1] // self.heads, keys)  # [S, D]
        attended = F.scaled_dot_product_attention(
            _rotated(self._by_head(queries), rotations[C:]),
            _rotated(self._by_head(keys), rotations),
            self._by_head(values),
            attn_mask=(near & there[:, None])[:, None],  # [B, 1, T, S]
        )
        return attended.transpose(1, 2).flatten(2)

    def _by_head(self, x: Tensor) -> Tensor:
        """Return [B, T, H] as [B, heads, T, D]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _rotations(positions: int, width: int, like: Tensor) -> Tensor:
    """Return the cosines and then the sines of every position's angles: [S, D]."""
    dtype = accumulation_dtype(like.dtype)
    exponents = torch.arange(width // 2, dtype=dtype, device=like.device) / (width // 2)
    steps = torch.arange(positions, dtype=dtype, device=like.device)
    angles = torch.outer(steps, _SLOWEST**-exponents)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _rotated(x: Tensor, rotations: Tensor) -> Tensor:
    """Rotate each pair of units of x [..., S, D] by its angle at its position."""
    first, second = x.to(rotations.dtype).chunk(2, dim=-1)
    cos, sin = rotations.chunk(2, dim=-1)
    rotated = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return rotated.to(x.dtype)
