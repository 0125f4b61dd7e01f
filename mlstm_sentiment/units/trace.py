"""The values of single units after every token of a text."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from ..engine.interface import TextModel
from ..engine.kinds import FeatureKind, StateName
from ..text.tokenizer import Tokenizer

_TEXTS, _TOKENS = 64, 4096  # whose units are in memory together


def highest_variance_units(
    model: TextModel,
    sequences: Sequence[np.ndarray],
    count: int,
    *,
    state: StateName = "cell",
    layer: int = -1,
    advance: Callable[[int], object] = lambda tokens_read: None,
) -> list[int]:
    """Return the `count` units whose values vary most, the largest variance first.

    sequences: tokens [n] each. advance: called with the number of tokens read since its last call,
    for a progress bar. Raises InputError for a layer that the model lacks, and for a state other
    than "cell" and "hidden".
    """
    FeatureKind(state=state)  # refuses any other word
    model.architecture.check_unit(0, layer)
    H, layers = model.architecture.hidden_size, [layer % model.architecture.layers]
    tokens_read = 0
    mean, squares = np.zeros(H), np.zeros(H)  # squares: sum of squared distances from the mean
    for first in range(0, len(sequences), _TEXTS):
        batch = sequences[first : first + _TEXTS]
        window, now = _TOKENS // len(batch), None
        for start in range(0, max(map(len, batch)), window):
            reading = model.read(
                [tokens[start : start + window] for tokens in batch],
                (),
                state=state,
                layers=layers,
                units=range(H),
                initial=now,
                final=True,
                advance=advance,
            )
            now = reading.state
            assert reading.unit_states is not None
            values = np.concatenate(reading.unit_states).astype(np.float64)  # [tokens, H]
            # Chan et al. 1979: combines the moments of two sets without cancellation.
            added, batch_mean = len(values), values.mean(axis=0)
            difference, total = batch_mean - mean, tokens_read + added
            squares += ((values - batch_mean) ** 2).sum(axis=0)
            squares += difference**2 * (tokens_read * added / total)
            mean += difference * (added / total)
            tokens_read = total
    return np.argsort(-squares, kind="stable")[:count].tolist()


def values_per_byte(tokenizer: Tokenizer, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values of each byte, [bytes, U], from those after each of the tokens [n, U].

    A byte gets the values after its token, but white space that begins a token those before it.
    """
    zero = np.zeros_like(values[:1])  # the state before the text
    return np.concatenate([zero, values])[_steps_of_bytes(tokenizer, tokens)]


def _steps_of_bytes(tokenizer: Tokenizer, tokens: np.ndarray) -> np.ndarray:
    """Return for each byte after how many of the tokens [n] its values come, int64 [bytes]."""
    spellings = [tokenizer.spellings[token] for token in tokens.tolist()]
    steps = [
        [step] * len(blank) + [step + 1] * (len(spelling) - len(blank))
        for step, (spelling, blank) in enumerate(zip(spellings, map(_lead, spellings), strict=True))
    ]
    return np.array(list(chain.from_iterable(steps)), dtype=np.int64)


def _lead(spelling: bytes) -> bytes:
    """Return the white space before the letters of a token; none if there are no letters."""
    letters = spelling.lstrip()
    return spelling[: len(spelling) - len(letters)] if letters else b""
