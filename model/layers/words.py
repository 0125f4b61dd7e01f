"""An mLSTM that reads n-grams and, with each byte, the word that it is in and the word before.

An n-gram knows a few letters; a word, long or short, is one vector here. Words share `word_buckets`
vectors by a hash, as n-grams do; capitals count as small letters. All vectors start as zeros.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError
from ..state import State
from .ngrams import BITS, MULTIPLIER, SHIFT, NgramMlstmLayer, sum_of

if TYPE_CHECKING:
    from ..language_model import ModelConfig

BYTES = 256


class WordMlstmLayer(NgramMlstmLayer):
    """An mLSTM layer; the first one of a model reads n-grams and words.

    state: that of an mLSTM with n-grams, and words [B, 2]: the hash of the word so far, and that of
    the last whole word; 0 for none.
    """

    title = "mLSTM with n-grams and words"
    described_by = NgramMlstmLayer.described_by | {"word_buckets"}

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Raise InputError unless the tokens are bytes, and there are n-grams to read."""
        super().check(config)
        if config.symbols != BYTES:
            raise InputError(
                f"model.cell mlstm_words finds words in bytes; the {config.symbols} tokens of this "
                "tokenizer are pieces of words; set model.cell mlstm_ngrams"
            )

    @classmethod
    def sizes(cls, config: "ModelConfig") -> dict[str, tuple[int, int]]:
        """Return those of n-grams and words: one table for the word so far, one for whole words."""
        return {**super().sizes(config), "words": (2, config.word_buckets)}

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the zero state, without earlier tokens or words."""
        state = super().initial_state(lanes, dtype, device)
        words = torch.zeros(lanes, 2, dtype=torch.long, device=device)
        return State(**state.tensors(), words=words)

    def look_back(self, tokens: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of the vectors [T, B, E] of the n-grams and words at each of the tokens.

        The second value has the parts of the state that the next window looks back to.
        """
        of_ngrams, ends = super().look_back(tokens, state)
        vectors = self.get_parameter("words")
        words = hash_words(tokens, state["words"])  # [T, B, 2]
        total = of_ngrams + sum_of(vectors, buckets_of_words(words, vectors.shape[1]))
        return total, {**ends, "words": words[-1]}


def hash_words(tokens: Tensor, carried: Tensor) -> Tensor:
    """Return the hashes [T, B, 2] of the word so far and of the last whole word, 0 for none.

    tokens: bytes [T, B]. carried: the two hashes before the first byte, [B, 2]. A byte b makes
    (hash * MULTIPLIER + b + 1) mod 2^31 of the hash of the word so far. Sums of products below 2^63
    give the same numbers for all T bytes at once, without a loop over them.
    """
    in_word, letters = letters_of(tokens)
    powers, inverses = powers_for(len(tokens), tokens.device)  # [T, 1] each
    sums = (letters * inverses).cumsum(0)  # [T, B]
    gaps, is_after_gap = last_where(~in_word)
    before_word = sums.gather(0, gaps).where(is_after_gap, -carried[:, 0] * MULTIPLIER)
    so_far = (((sums - before_word) & BITS) * powers) & BITS
    just_before = torch.cat([carried[None, :, 0], so_far[:-1]])
    ends, has_ended = last_where(~in_word & (just_before != 0))
    whole = just_before.gather(0, ends).where(has_ended, carried[:, 1])
    return torch.stack([so_far, whole], dim=-1)


def letters_of(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return which bytes are in a word, and each as a small letter plus one; 0 outside words.

    Letters, digits, the apostrophe, and all bytes of characters beyond ASCII are in words.
    """
    small = torch.where((tokens >= ord("A")) & (tokens <= ord("Z")), tokens + 32, tokens)
    is_letter = (small >= ord("a")) & (small <= ord("z"))
    is_digit = (small >= ord("0")) & (small <= ord("9"))
    in_word = is_letter | is_digit | (small == ord("'")) | (small >= 128)
    return in_word, (small + 1).where(in_word, 0)


def last_where(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the last place at or before each of T where mask [T, B] is true, and if there is one.

    Where there is none, the place is 0.
    """
    places = torch.arange(len(mask), device=mask.device)[:, None]
    last = places.where(mask, -1).cummax(0).values  # [T, B]
    return last.clamp(min=0), last >= 0


@lru_cache(maxsize=32)  # a copy to a GPU waits for it; windows have few lengths
def powers_for(T: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return MULTIPLIER to the powers 0 to T - 1, and their inverses, modulo 2^31, [T, 1] each.

    So a letter at place i, times inverse i, times power t, is a letter times MULTIPLIER^(t - i).
    """
    modulus = BITS + 1
    inverse = pow(MULTIPLIER, -1, modulus)
    powers = [pow(MULTIPLIER, t, modulus) for t in range(T)]
    inverses = [pow(inverse, t, modulus) for t in range(T)]
    made = torch.tensor([powers, inverses], device=device).unsqueeze(-1)
    return made[0], made[1]


def buckets_of_words(words: Tensor, buckets: int) -> Tensor:
    """Return the numbers of the vectors of hashes [T, B, 2]; those of whole words come second."""
    mixed = ((words ^ (words >> SHIFT)) * MULTIPLIER) & BITS
    tables = torch.arange(2, device=words.device) * buckets
    return (mixed ^ (mixed >> SHIFT)) % buckets + tables
