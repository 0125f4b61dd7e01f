"""An mLSTM with n-grams: what it adds to the mLSTM, and that its n-grams span windows."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.features import features_in_order
from model.language_model import ModelConfig, build_model
from model.layers.ngrams import buckets_of
from tests.support.cells import hold_cuts_and_resets, hold_vectors_in_files, random_tokens

SIZES = {"hidden_size": 16, "embedding_size": 6}
BUCKETS = 40


def ngram_model(**changes):
    config = ModelConfig(
        cell="mlstm_ngrams", **SIZES, ngram_length=4, ngram_buckets=BUCKETS, **changes
    )
    model = build_model(config, seed=3).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        model.layers[0].ngrams.normal_(generator=generator)
    return model


def bucket(ngram):
    """Return the bucket of an n-gram: Python's whole numbers, one after the other."""
    hashed = ngram[-1]
    for token in ngram[-2::-1]:
        hashed = (hashed * 1_000_003 + token) % 2**31
    return ((((hashed ^ (hashed // 2**15)) * 1_000_003) % 2**31) // 2**15) % BUCKETS


def inputs_by_hand(model, text):
    """Return what the recurrence reads for each token of a text, [T, E]."""
    tables = model.layers[0].ngrams
    padded = [0, 0, 0, *(token + 1 for token in text)]
    rows = []
    for place, token in enumerate(text):
        row = model.embedding.weight[token].clone()
        for n in (2, 3, 4):
            row += tables[n - 2, bucket(padded[place + 4 - n : place + 4])]
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_vectors_of_the_ngrams_are_added_to_the_embedding(layers):
    model = ngram_model(layers=layers).double()
    plain = build_model(ModelConfig(**SIZES, layers=layers), seed=3).double()
    tokens = random_tokens(2, 12)
    h, _ = model.hidden(tokens, model.initial_state(2))
    x = torch.stack([inputs_by_hand(model, text) for text in tokens.tolist()], dim=1)
    state, weights = plain.initial_state(2), plain.fold()
    for index, layer in enumerate(plain.layers):
        x, _ = layer.run(x, state.layer(index), weights.layers[index])
    torch.testing.assert_close(h, x, rtol=1e-12, atol=1e-12)


def test_a_fresh_model_is_an_mlstm_without_ngrams():
    model = build_model(ModelConfig(cell="mlstm_ngrams", **SIZES), seed=3)
    plain = build_model(ModelConfig(**SIZES), seed=3)
    tokens = random_tokens(3, 9)
    expected, _ = plain(tokens, plain.initial_state(3))
    found, _ = model(tokens, model.initial_state(3))
    # The plain one projects its table of tokens: sums in another order.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ngrams_span_windows_and_end_where_a_lane_is_reset(dtype):
    model = ngram_model()
    model.compute_dtype = dtype
    hold_cuts_and_resets(model, random_tokens(3, 20), [1, 2, 5, 12], "recent")


def test_only_the_vectors_of_ngrams_that_were_read_have_a_gradient():
    model = ngram_model()
    text = random_tokens(1, 5)
    model(text, model.initial_state(1))[0].sum().backward()
    padded = [0, 0, 0, *(token + 1 for token in text[0].tolist())]
    read = {(n - 2, bucket(padded[i + 4 - n : i + 4])) for n in (2, 3, 4) for i in range(5)}
    moved = model.layers[0].ngrams.grad.abs().sum(-1).nonzero().tolist()
    assert {tuple(place) for place in moved} == read


def test_features_do_not_depend_on_the_batch():
    model = ngram_model()
    texts = [row[:n].numpy() for row, n in zip(random_tokens(4, 30), (1, 30, 9, 17), strict=True)]
    together = features_in_order(model, texts, batch_size=4)
    alone = features_in_order(model, texts, batch_size=1)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5 * np.abs(alone).max())


@pytest.mark.parametrize("quantized", [False, True])
def test_a_saved_model_has_its_ngrams(quantized, tmp_path):
    hold_vectors_in_files(ngram_model(), "ngrams", tmp_path, quantized=quantized)


def test_pairs_are_the_shortest_ngrams_and_have_one_table():
    config = ModelConfig(cell="mlstm_ngrams", **SIZES, ngram_length=2, ngram_buckets=5)
    assert build_model(config, seed=0).layers[0].ngrams.shape == (1, 5, SIZES["embedding_size"])


def test_a_length_without_ngrams_is_refused():
    with pytest.raises(InputError, match=r"model.ngram_length is 1; .* set model.cell mlstm"):
        ModelConfig(cell="mlstm_ngrams", ngram_length=1)


def test_every_vector_can_be_reached_and_more_of_them_are_refused():
    """The hash has 16 bits, so 65,536 vectors."""
    most = 1 << 16
    seen = torch.arange(1 << 20).view(2, -1)
    assert len(buckets_of(seen, 2, most).unique()) > 0.99 * most
    with pytest.raises(InputError, match=r"model.ngram_buckets is 65537; .* to 65,536"):
        ModelConfig(cell="mlstm_ngrams", ngram_buckets=most + 1)
