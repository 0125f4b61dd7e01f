"""Featurizing and scoring many texts equals reading each of them alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import ragged_batches
from model.inference.features import clamped, features_in_order, read
from model.layers import language_model
from model.layers.config import ModelConfig
from model.layers.language_model import MOST_LOGITS, build_model

TEXTS = ["good", "", "An awful thing. " * 30, "ça marche — très bien", "bad\nnews", "good"]


@pytest.fixture
def sequences():
    return [np.frombuffer(text_profile("openai").encode(text), np.uint8) for text in TEXTS]


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 5), st.integers(1, 16))
def test_every_position_of_every_row_is_processed_once_in_order(lengths, batch_size, block):
    walked = [[] for _ in lengths]
    for batch in ragged_batches(lengths, batch_size, block):
        assert len(batch.indices) <= batch_size
        for start, stop, active in batch.spans:
            assert 0 < stop - start <= block
            for row in batch.indices[:active]:
                walked[row] += range(start, stop)
    assert walked == [list(range(length)) for length in lengths]


def test_rows_of_one_length_keep_their_order_and_short_texts_do_not_pay_for_long_ones():
    """A resume skips batches by number, so their order must be the same on every machine."""
    lengths = [5, 7, 3, 7] * 100
    rows = np.concatenate([batch.indices for batch in ragged_batches(lengths, 32, 8)])
    assert rows.tolist() == sorted(range(400), key=lambda row: (-lengths[row], row))
    lengths = [20] * 127 + [5000]
    work = sum(
        (span.stop - span.start) * span.active
        for batch in ragged_batches(lengths, batch_size=128, block=64)
        for span in batch.spans
    )
    assert work == sum(lengths)


@pytest.mark.parametrize(
    "kind",
    [
        FeatureKind(),
        FeatureKind(pooling=("last", "mean")),
        FeatureKind(
            state="hidden", pooling=("mean", "max", "min", "last"), units=[3, 1], tanh=True
        ),
    ],
)
def test_one_reading_gives_features_and_what_predicting_costs(small_model, sequences, kind):
    torch.nn.init.normal_(small_model.decoder.bias)  # by which the first token is predicted
    sequences, counts = [*sequences, np.empty(0, np.uint8)], []
    options = {"state": kind.state, "tanh": kind.tanh, "advance": counts.append}
    result = read(
        small_model, sequences, kind.poolings, bits=True, batch_size=3, block=17, **options
    )
    expected = features_in_order(small_model, sequences, kind=kind, batch_size=2)
    features = kind.chosen(small_model.config, result, "fp32")
    assert features.dtype == np.float32
    assert sum(counts) == sum(map(len, sequences))
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    bits = read(small_model, sequences, bits=True, batch_size=2).bits
    np.testing.assert_allclose(result.bits, bits, rtol=1e-5)


def test_progress_and_costs_are_of_every_byte(small_model, sequences):
    counts = []
    read(small_model, sequences, ("last",), batch_size=2, block=100, advance=counts.append)
    assert sum(counts) == sum(map(len, sequences))
    assert max(counts) <= 2 * 100 < len(sequences[2])
    costs = read(small_model, sequences, bits=True, batch_size=4, block=9).token_bits
    for row, sequence in enumerate(sequences):
        tokens = torch.from_numpy(sequence.astype(np.int64))
        with torch.no_grad():
            logits, _ = small_model(tokens[None, :-1], small_model.initial_state(1))
        first = small_model.decoder.bias.detach()
        predictions = torch.cat([first[None], logits[0]]).double().log_softmax(-1) / math.log(2)
        expected = -predictions[torch.arange(len(tokens)), tokens]
        np.testing.assert_allclose(costs[row], expected.numpy(), rtol=1e-5, atol=1e-5)


def costs_of(model, sequences):
    """Return the bits of every token, one text after the other, and the bits of every text."""
    reading = read(model, sequences, bits=True, batch_size=len(sequences))
    return np.concatenate(reading.token_bits), reading.bits


def test_few_logits_of_many_tokens_exist_at_once(monkeypatch):
    V, lengths, decoded = 1 << 16, (70, 66), []
    model = build_model(ModelConfig(hidden_size=2, embedding_size=2, vocabulary_size=V), seed=0)
    sequences = [np.random.default_rng(0).integers(V, size=length) for length in lengths]
    decode = model.decode

    def record(h, weights):
        decoded.append(h.shape[:-1].numel() * V)
        return decode(h, weights)

    monkeypatch.setattr(model, "decode", record)
    in_pieces = costs_of(model, sequences)
    assert max(decoded) <= MOST_LOGITS < V * sum(lengths)
    monkeypatch.setattr(language_model, "MOST_LOGITS", V * sum(lengths))
    at_once = costs_of(model, sequences)
    assert max(decoded) > MOST_LOGITS
    for costs, expected in zip(in_pieces, at_once, strict=True):
        # The sum of V numbers may have been added up in another order: a step per halving of them.
        np.testing.assert_allclose(costs, expected, rtol=math.log2(V) * 2**-24)


@pytest.mark.parametrize("cell", ["mlstm", "lstm", "gru", "transformer"])
def test_reading_goes_on_from_a_state(cell, sequences):
    """In two parts, with a clamped unit or without, as in one."""
    model = build_model(ModelConfig(cell=cell, hidden_size=8, layers=2), seed=0)
    for clamp in (None, Clamp(unit=3, hidden=0.5)):
        options = {"bits": True, "clamp": clamp, "state": "hidden", "units": [1, 3], "final": True}
        begin = clamped(model.initial_state(len(sequences)), clamp)
        whole = read(model, sequences, batch_size=4, initial=begin, **options)
        first = read(model, [s[:5] for s in sequences], initial=begin, **options)
        rest = read(model, [s[5:] for s in sequences], initial=first.state, **options)
        for name in ("unit_states", "token_bits"):
            parts = zip(getattr(first, name), getattr(rest, name), strict=True)
            for one, other in zip(parts, getattr(whole, name), strict=True):
                np.testing.assert_allclose(np.concatenate(one), other, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(rest.state.h, whole.state.h, rtol=1e-4, atol=1e-5)
        if clamp is not None:
            assert all((states[:, 1] == 0.5).all() for states in whole.unit_states)
