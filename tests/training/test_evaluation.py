"""Bits per character: every byte counted once, whatever the strips and the ranks."""

import math

import numpy as np
import pytest
import torch

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.engine import scoring
from mlstm_sentiment.engine.scoring import score_split
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import Split, encode_split
from mlstm_sentiment.text.tokenizer import BYTES
from tests.support.loaded import as_loaded
from tests.support.trainers import ALONE, CPU
from training.evaluation import evaluate_split
from training.parallel.distributed import World


def reference_bits(model, sequence):
    """Total bits of a sequence from the zero state, one byte at a time, in float64."""
    model = model.double()
    state = model.initial_state(1)
    logits = model.decoder.bias[None]
    bits = []
    with torch.no_grad():
        weights = model.prepare_weights()
        for byte in sequence.tolist():
            bits.append(-logits[0].log_softmax(0)[byte].item() / math.log(2))
            (logits,), state = model(torch.tensor([[byte]]), state, weights)
    return np.array(bits)


def bits_by_review(model, split):
    """Return the total bits of each review, each from the zero state."""
    pairs = zip(split.offsets[:-1], split.offsets[1:], strict=True)
    return np.array([reference_bits(model, split.tokens[a:b]).sum() for a, b in pairs])


@pytest.fixture
def smaller_split():
    """Ten reviews: the reference takes its time."""
    return encode_split((r.text for r in synthetic_reviews(10, seed=5)), text_profile("openai"))


@pytest.fixture
def few_subwords(subwords):
    """The same reviews in subword tokens."""
    texts = (review.text for review in synthetic_reviews(10, seed=5))
    return encode_split(texts, text_profile("openai"), subwords)


def test_one_lane_is_file_order_with_the_state_carried(small_model, smaller_split):
    score = score_split(as_loaded(small_model), smaller_split, lanes=1)
    bits = reference_bits(small_model, smaller_split.tokens)
    assert score.characters == len(smaller_split.tokens)
    assert score.bits_per_character == pytest.approx(bits.sum() / len(bits), rel=1e-6)


def test_review_reset_starts_every_review_from_zero(small_model, smaller_split):
    score = score_split(as_loaded(small_model), smaller_split, reset="review", lanes=7)
    bits = bits_by_review(small_model, smaller_split)
    sizes = np.diff(smaller_split.offsets)
    assert score.bits_per_character == pytest.approx(bits.sum() / sizes.sum(), rel=1e-6)
    jackknife = [(bits.sum() - bits[k]) / (sizes.sum() - sizes[k]) for k in range(len(bits))]
    spread = np.sqrt((len(bits) - 1) * np.var(jackknife))
    assert score.standard_error == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("reset", ["strip", "review"])
def test_reviews_that_are_empty_cost_nothing(small_model, small_split, reset):
    """They come first, in a row, and last. Corpora of earlier versions have some."""
    offsets = np.array(small_split.offsets)
    empty = Split(small_split.tokens, np.r_[[0, 0], offsets, [offsets[-1]]], BYTES)
    expected = score_split(as_loaded(small_model), small_split, reset=reset, lanes=1)
    score = score_split(as_loaded(small_model), empty, reset=reset, lanes=1)
    assert score.bits_per_character == pytest.approx(expected.bits_per_character, rel=1e-12)
    assert score.characters == expected.characters
    N = small_split.reviews
    factor = np.sqrt((N + 3) / (N + 2) / (N / (N - 1)))  # three more residuals, all of them zero
    assert score.standard_error == pytest.approx(factor * expected.standard_error, rel=1e-9)


def test_ranks_together_score_what_one_process_scores(small_model, small_split):
    alone, characters = evaluate_split(small_model, small_split, lanes=5, world=ALONE)

    class Rank(World):
        def sum(self, tensor):
            if not tensor.is_floating_point():
                return tensor * self.size  # flags: the other rank has finished, too
            parts.append(tensor)
            return tensor

    parts: list[torch.Tensor] = []
    for rank in range(2):
        world = Rank(rank, 2, CPU)
        evaluate_split(small_model, small_split, lanes=5, world=world)
    bits, count = sum(parts).tolist()
    assert count == characters == len(small_split.tokens)
    assert bits / count == pytest.approx(alone, rel=1e-6)
    expected = score_split(as_loaded(small_model), small_split, lanes=5)
    assert expected.bits_per_character == pytest.approx(alone, rel=1e-9)


def test_tokens_and_the_error_over_reviews_count_per_byte(
    subword_model, few_subwords, smaller_split
):
    bits = reference_bits(subword_model, few_subwords.tokens)
    score = score_split(
        as_loaded(subword_model.float(), few_subwords.tokenizer), few_subwords, lanes=1
    )
    assert score.characters == len(smaller_split.tokens)  # the same reviews, as bytes
    assert score.bits_per_character == pytest.approx(
        bits.sum() / len(smaller_split.tokens), rel=1e-6
    )
    evaluated = evaluate_split(subword_model, few_subwords, lanes=1, world=ALONE)
    assert evaluated == (pytest.approx(score.bits_per_character), score.characters)
    score = score_split(
        as_loaded(subword_model, few_subwords.tokenizer), few_subwords, reset="review"
    )
    bits = bits_by_review(subword_model, few_subwords)
    sizes = np.diff(smaller_split.offsets)
    ratio = bits.sum() / sizes.sum()
    error = np.sqrt(len(bits) * (bits - ratio * sizes).var(ddof=1)) / sizes.sum()
    assert score.standard_error == pytest.approx(error, rel=1e-4)


def test_short_strips_start_with_the_state_after_the_text_before_them(small_model, small_split):
    whole = score_split(as_loaded(small_model), small_split, lanes=1)
    cold = score_split(as_loaded(small_model), small_split, lanes=9)
    chosen = score_split(as_loaded(small_model), small_split)
    assert (whole.cold_starts, cold.cold_starts, chosen.cold_starts) == (1, 9, 1)
    assert chosen.characters == whole.characters
    # fp32, in batches of other sizes
    assert chosen.bits_per_character == pytest.approx(whole.bits_per_character, rel=1e-6)
    assert cold.bits_per_character != pytest.approx(whole.bits_per_character, rel=1e-6)
    assert chosen != score_split(as_loaded(small_model), small_split, reset="review")


def test_the_error_of_a_single_review_is_unknown(small_model, small_split):
    one = Split(small_split.tokens[:40], np.array([0, 40]), BYTES)
    score = score_split(as_loaded(small_model), one)
    assert (score.standard_error, score.characters) == (None, 40)
    two = Split(small_split.tokens[:100], np.array([0, 30, 100]), BYTES)
    assert score_split(as_loaded(small_model), two, reset="review").standard_error > 0


@pytest.mark.parametrize(
    ("tokens", "strips", "before"),
    [
        (999, 1, 0),
        (1_500, 3, 500),
        (10**6, 64, 500),
        (64 * 20_000, 64, 0),  # a strip is long enough to begin cold
    ],
)
def test_strips_are_as_many_as_the_text_has_room_for(tokens, strips, before):
    split = Split(np.zeros(tokens, np.uint8), np.r_[0 : tokens : tokens // 300, tokens], BYTES)
    starts, firsts, ends = scoring._pieces(split, None, "strip")
    assert len(firsts) == strips
    assert (firsts[0], ends[-1]) == (0, tokens)
    assert np.array_equal(firsts[1:], ends[:-1])
    assert np.array_equal(firsts - starts, np.minimum(firsts, before))


def test_no_lanes_and_texts_of_which_nothing_is_left_are_refused(small_model, small_split):
    nothing = Split(np.zeros(0, np.uint8), np.zeros(3, np.int64), BYTES)
    with pytest.raises(InputError, match="nothing to score"):
        score_split(as_loaded(small_model), nothing, reset="review")
    with pytest.raises(InputError, match="--lanes is 0"):
        score_split(as_loaded(small_model), small_split, lanes=0)
