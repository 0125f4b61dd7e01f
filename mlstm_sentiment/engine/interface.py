"""What every model offers that processes texts, whatever computes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..text.profiles import TextProfile
from ..text.tokenizer import Tokenizer
from .architecture import Architecture
from .kinds import Pooling, StateName
from .request import Clamp, Familiarity


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a model computed for N texts. What was not asked for is None.

    F: the chosen layers' units, layers x H, the lowest layer first.
    """

    lengths: np.ndarray  # int64 [N], the tokens of each text
    last: np.ndarray | None = None  # float32 [N, F], the state after the last token
    mean: np.ndarray | None = None  # float32 [N, F], over the states after all tokens
    max: np.ndarray | None = None  # float32 [N, F], of each unit, over all tokens
    min: np.ndarray | None = None  # float32 [N, F], of each unit, over all tokens
    unit_states: list[np.ndarray] | None = None
    """N arrays float32 [tokens, layers x units], the chosen units after every token."""
    token_bits: list[np.ndarray] | None = None  # N arrays float32 [tokens], the cost of each
    bits: np.ndarray | None = None  # float64 [N], the sum of `token_bits`
    unfamiliar: np.ndarray | None = None  # bool [N], whether it costs more than familiar texts
    state: Any = None  # after the texts, from which `read` and `next_token` can go on

    def features(self, pooling: Sequence[str]) -> np.ndarray:
        """Return the poolings side by side, float32 [N, F x poolings]."""
        return np.concatenate([getattr(self, name) for name in pooling], axis=1)


class TextModel(Protocol):
    """A model with its tokenizer and text profile: `Engine`, or one in PyTorch of the repository.

    The library asks a model for nothing else; `Engine` says what each does.
    """

    @property
    def folder(self) -> Path: ...  # of its files

    @property
    def architecture(self) -> Architecture: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def profile(self) -> TextProfile: ...

    @property
    def provenance(self) -> Mapping[str, Any]: ...  # where its weights come from

    @property
    def precision(self) -> str: ...  # equal words and digests: results within a thousandth

    def digest(self) -> str: ...  # of its architecture and weights, whatever computes it

    def encode(self, text: str) -> np.ndarray: ...  # tokens [n] of the text in its profile's frame

    def read(
        self,
        texts: Sequence[str] | Sequence[np.ndarray],
        pooling: Sequence[Pooling] = ...,
        *,
        state: StateName = ...,
        layers: Sequence[int] | None = ...,
        tanh: bool = ...,
        units: Sequence[int] | None = ...,
        bits: bool = ...,
        familiarity: Familiarity | None = ...,
        initial: Any = ...,
        final: bool = ...,
        clamp: Clamp | None = ...,
        advance: Callable[[int], object] | None = ...,
    ) -> Reading: ...

    def initial_state(self, texts: int = ..., clamp: Clamp | None = ...) -> Any: ...

    def advance(
        self, state: Any, tokens: Sequence[np.ndarray], clamp: Clamp | None = ...
    ) -> Any: ...

    def next_token(self, state: Any) -> np.ndarray: ...
