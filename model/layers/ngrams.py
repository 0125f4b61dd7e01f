"""An mLSTM that also reads the n-grams that end with each token.

The vectors of the n-grams are added to the token's embedding. There are too many n-grams to keep a
vector for each, so they share `ngram_buckets` vectors for every n, by a hash (Bojanowski et al.
2017, arXiv:1607.04606; for bytes Pagnoni et al. 2024, arXiv:2412.09871). All vectors start as
zeros: at first, the model is the mLSTM without n-grams.
"""

from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..fused.window import look_up
from ..state import State
from .mlstm import MlstmLayer, MlstmWeights

if TYPE_CHECKING:
    from ..language_model import ModelConfig

MULTIPLIER = 1_000_003  # of the hash; with BITS, products stay below 2^63
BITS = 0x7FFF_FFFF
SHIFT = 15


class NgramMlstmLayer(MlstmLayer):
    """An mLSTM layer; the first one of a model reads n-grams of 2 to `ngram_length` tokens.

    state: h and c as in an mLSTM, and recent [B, N - 1], the last tokens, with which the next
    n-grams begin, the latest at the end: each plus one, and 0 before the text.
    """

    title = "mLSTM with n-grams"
    described_by = frozenset({"ngram_length", "ngram_buckets"})
    longest = 2  # N; `make` sets it
    tables: tuple[str, ...] = ()  # of vectors [tables, buckets, E]; `make` sets their names

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Raise InputError unless there are n-grams to read."""
        if config.ngram_length < 2:
            raise InputError(
                f"model.ngram_length is {config.ngram_length}; an n-gram has at least two tokens; "
                "without n-grams, set model.cell mlstm"
            )

    @classmethod
    def make(cls, config: "ModelConfig", index: int) -> Self:
        """Return a layer; the first one has vectors for the n-grams."""
        layer = super().make(config, index)
        layer.longest, layer.tables = config.ngram_length, tuple(cls.sizes(config))
        # Three dimensions, so that Muon ignores it: it is a table, not a matrix between features.
        for name, (tables, buckets) in cls.sizes(config).items():
            shape = (tables, buckets, config.embedding_size)
            vectors = None if index else nn.Parameter(torch.empty(shape))
            layer.register_parameter(name, vectors)
        return layer

    @classmethod
    def sizes(cls, config: "ModelConfig") -> dict[str, tuple[int, int]]:
        """Return how many tables each parameter of vectors has, and how many buckets a table."""
        return {"ngrams": (config.ngram_length - 1, config.ngram_buckets)}

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw as an mLSTM does; the vectors of what ends with a token become zeros."""
        super().reset_parameters(forget_gate_bias)
        for name in self.tables:
            if getattr(self, name) is not None:
                nn.init.zeros_(self.get_parameter(name))

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return an mLSTM's zero state, without earlier tokens."""
        state = super().initial_state(lanes, dtype, device)
        recent = torch.zeros(lanes, self.longest - 1, dtype=torch.long, device=device)
        return State(**state.tensors(), recent=recent)

    def run(self, x: Tensor, state: State, weights: MlstmWeights) -> tuple[Tensor, State]:
        """Recur as an mLSTM does; a deeper layer reads no tokens."""
        h, after = super().run(x, state, weights)
        return h, State(**{**state.tensors(), **after.tensors()})

    def tabulate(self, embedding: Tensor, weights: MlstmWeights) -> Tensor:
        """Return the embedding [V, E]: with its n-grams, a token is a different input each time."""
        return embedding

    def read(
        self, tokens: Tensor, table: Tensor, state: State, weights: MlstmWeights
    ) -> tuple[Tensor, State]:
        """Recur over the sums of the tokens' embeddings and the vectors of what ends there."""
        vectors, ends = self.look_back(tokens, state)
        x = look_up(tokens, table) + vectors.to(table.dtype)  # [T, B, E]
        h, after = self.run(x, state, weights)
        return h, State(**{**after.tensors(), **ends})

    def look_back(self, tokens: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of the vectors [T, B, E] of what ends at each of tokens [T, B].

        The second value has the parts of the state that the next window looks back to.
        """
        vectors = self.get_parameter("ngrams")
        seen = torch.cat([state["recent"].t(), tokens + 1])  # [N - 1 + T, B]
        rows = buckets_of(seen, self.longest, vectors.shape[1])  # [T, B, N - 1]
        return sum_of(vectors, rows), {"recent": seen[len(tokens) :].t()}


def sum_of(vectors: Tensor, rows: Tensor) -> Tensor:
    """Return the sums [T, B, E] of the vectors [tables, buckets, E] with numbers [T, B, n]."""
    total = F.embedding_bag(rows.flatten(0, 1), vectors.flatten(0, 1), mode="sum")
    return total.unflatten(0, rows.shape[:2])


def buckets_of(seen: Tensor, longest: int, buckets: int) -> Tensor:
    """Return the numbers of the vectors of the n-grams that end at each of the last T tokens.

    seen: whole numbers below 2^31 [longest - 1 + T, B]. Returns [T, B, longest - 1], the n-grams of
    two tokens first; those of n tokens have the numbers from (n - 2) * buckets on.
    """
    T = len(seen) - longest + 1
    ends = torch.arange(longest - 1, longest - 1 + T, device=seen.device)
    hashed = seen[ends]  # [T, B]
    rows = []
    for n in range(2, longest + 1):
        hashed = (hashed * MULTIPLIER + seen[ends - n + 1]) & BITS
        mixed = ((hashed ^ (hashed >> SHIFT)) * MULTIPLIER) & BITS
        rows.append((mixed >> SHIFT) % buckets + (n - 2) * buckets)
    return torch.stack(rows, dim=-1)
