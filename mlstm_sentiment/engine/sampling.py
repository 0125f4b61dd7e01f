"""Text from the model, token by token: valid UTF-8 by construction, any unit clamped to a value.

Tokens (bytes, or pieces of a vocabulary) that cannot continue the present UTF-8 sequence get
probability zero and the others are renormalised. Sampling freely and dropping invalid bytes would
show a text other than the one that the model has read; with the mask, the two are equal. A
trained model gives such tokens almost no probability, so this changes almost nothing.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..bounds import Bound, NonNegativeFloat, NonNegativeInt, PositiveInt, check_bounds
from ..errors import InputError, is_whole
from ..text.profiles import TextProfile
from ..text.tokenizer import START, Continuations
from .engine import as_model
from .interface import TextModel
from .request import Clamp


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How the next token is drawn, and when to stop.

    Raises InputError for a value out of bounds.

        continue_text("default", "I thought", SamplingConfig(temperature=0.7))
    """

    temperature: NonNegativeFloat = 1.0
    """Logits are divided by it: below 1 likely tokens are likelier still, above 1 less likely; 0
    always takes the likeliest."""
    top_k: NonNegativeInt = 0
    """Sample only from this many of the likeliest tokens; 0: from all."""
    top_p: Annotated[float, Bound(above=0, max=1)] = 1.0
    """Sample only from the likeliest tokens, as few as together have this probability; 1: from
    all."""
    length: PositiveInt = 400
    """Largest number of bytes to write after the prompt."""
    seed: NonNegativeInt = 0
    """The same seed gives the same text."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")


def _probabilities(logits: np.ndarray, allowed: np.ndarray, config: SamplingConfig) -> np.ndarray:
    """Return the probabilities of the next token, float64 [B, V]; rows sum to 1.

    logits: float64 [B, V]. allowed: bool [B, V], at least one per row. Order: mask what is not
    allowed, temperature, top k, then top p of these. Among equals, the lower token wins.
    """
    scores = np.where(allowed, logits, -np.inf)
    order = np.argsort(-scores, axis=-1, kind="stable")  # likeliest first
    scores = np.take_along_axis(scores, order, axis=-1)
    with np.errstate(over="ignore"):  # with a tiny temperature all but the likeliest become -inf
        weights = np.exp((scores - scores[:, :1]) / (config.temperature or 1.0))
    weights[:, 1 if config.temperature == 0 else config.top_k or len(weights[0]) :] = 0
    weights /= weights.sum(axis=-1, keepdims=True)
    if config.top_p < 1:
        # A token stays while the likelier ones together have not reached top p.
        weights[:, 1:][np.cumsum(weights, axis=-1)[:, :-1] >= config.top_p] = 0
        weights /= weights.sum(axis=-1, keepdims=True)
    chances = np.empty_like(weights)
    np.put_along_axis(chances, order, weights, axis=-1)
    return chances


def review_start(profile: TextProfile) -> str:
    """Return the prefix that a profile puts before each review; InputError if nothing."""
    if not profile.prefix:
        raise InputError(
            f"text profile {profile.name} puts nothing before a text, so --stop cannot find the "
            "beginning of a review"
        )
    return profile.prefix


def generate(
    model: TextModel,
    opening: bytes,
    config: SamplingConfig,
    *,
    samples: int = 1,
    clamp: Clamp | None = None,
    stop: str = "",
) -> Iterator[tuple[int, str]]:
    """Yield (sample, characters) as they come, until every sample has ended.

    opening: what the model reads first, from the zero state: UTF-8, not yielded again. A sample
    ends after `config.length` bytes, or before the first `stop`, where one is given. Its
    characters, joined, are valid UTF-8. clamp: holds a unit at its value before the first token and
    after each one. The next token is predicted from a clamped hidden value; a clamped cell affects
    the prediction through the step only. Raises InputError for a unit that the model lacks.
    """
    if not is_whole(samples) or samples < 1:
        raise InputError(f"samples is {samples}; it must be at least 1")
    tokens, first_bytes = model.tokenizer.opening(opening)
    continuations = Continuations(model.tokenizer.spellings)
    parts = [_Sample(config, n, stop, continuations, first_bytes) for n in range(samples)]
    state = model.initial_state(samples, clamp)
    return _generate(model, model.advance(state, [tokens] * samples, clamp), clamp, config, parts)


def continue_text(
    model: str | Path | TextModel,
    prompt: str = "",
    config: SamplingConfig | None = None,
    *,
    samples: int = 1,
    clamp: Clamp | None = None,
) -> list[str]:
    """Return what a model writes after a prompt, one text for each sample.

    model: the name of a shipped model, a model or run directory, or a model. prompt: cleaned as the
    model's texts were; empty: the model begins a text. config: None is `SamplingConfig()`. clamp:
    holds one unit at a value. Returns `samples` texts, without the prompt. Raises InputError for a
    prompt that is no string, fewer samples than one, or a unit that the model lacks.

        continue_text("default", "I thought", samples=2)
    """
    if not isinstance(prompt, str):
        raise InputError(f"the prompt is of type {type(prompt).__name__}; give one string")
    model = as_model(model)
    opening = model.profile.opening(prompt)
    pieces = generate(model, opening, config or SamplingConfig(), samples=samples, clamp=clamp)
    texts = [""] * samples
    for sample, characters in pieces:
        texts[sample] += characters
    return texts


def _generate(
    model: TextModel,
    state: Any,
    clamp: Clamp | None,
    config: SamplingConfig,
    samples: list["_Sample"],
) -> Iterator[tuple[int, str]]:
    while True:
        allowed = np.stack([sample.allowed() for sample in samples])
        logits = model.next_token(state).astype(np.float64)
        if not np.isfinite(logits).all():
            raise InputError("the model predicts NaN or infinity: its weights are damaged")
        chances = _probabilities(logits, allowed, config)
        tokens = np.array([sample.draw(row) for sample, row in zip(samples, chances, strict=True)])
        for number, sample in enumerate(samples):
            if sample.room and (characters := sample.append(int(tokens[number]))):
                yield number, characters
        if not any(sample.room for sample in samples):
            return
        state = model.advance(state, list(tokens[:, None]), clamp)


class _Sample:
    """A sample being drawn: its random numbers, and the characters not yet yielded.

    first_bytes: with which its first token must begin.
    """

    def __init__(
        self,
        config: SamplingConfig,
        number: int,
        stop: str,
        continuations: Continuations,
        first_bytes: bytes,
    ):
        # Its own generator: a sample does not depend on how many others are drawn with it.
        self.random = np.random.default_rng([config.seed, number])
        self.room = config.length  # bytes that may still come
        self.stop = stop
        self.continuations, self.first_bytes = continuations, first_bytes
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.utf8 = START
        self.pending = ""

    def allowed(self) -> np.ndarray:
        """Return the tokens that may come, bool [V]; a sample that has ended takes any."""
        spellings = self.continuations.spellings
        if not self.room:
            return np.ones(len(spellings), bool)
        allowed = self.continuations.allowed(self.utf8, self.room + len(self.first_bytes))
        if self.first_bytes:
            allowed &= np.array([each.startswith(self.first_bytes) for each in spellings])
        return allowed

    def draw(self, chances: np.ndarray) -> int:
        """Draw a token with the chances [V], by inverting their cumulative sum."""
        possible = np.flatnonzero(chances)
        cumulative = np.cumsum(chances[possible])
        at = np.searchsorted(cumulative, self.random.random() * cumulative[-1], side="right")
        return int(possible[min(at, len(possible) - 1)])  # the product may round up to the sum

    def append(self, token: int) -> str:
        """Append a token; return the characters that have become certain."""
        self.utf8 = self.continuations.next_state(self.utf8, token)
        written = self.continuations.spellings[token].removeprefix(self.first_bytes)
        self.first_bytes = b""  # it belongs to the opening, and is not yielded again
        self.room -= len(written)
        self.pending += self.decoder.decode(written)
        if self.stop and self.stop in self.pending:
            self.room, self.pending = 0, self.pending.partition(self.stop)[0]
        ready = len(self.pending) - self._undecided()
        characters, self.pending = self.pending[:ready], self.pending[ready:]
        return characters

    def _undecided(self) -> int:
        """Count the last characters that could be the beginning of the stop."""
        if self.room == 0:
            return 0
        sizes = range(len(self.stop) - 1, 0, -1)
        return next((size for size in sizes if self.pending.endswith(self.stop[:size])), 0)
