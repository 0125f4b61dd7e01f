"""An mLSTM with words: which words each byte comes with, and that they span windows."""

import re

import pytest
import torch

from model.errors import InputError
from model.language_model import ModelConfig, build_model
from model.layers.words import hash_words
from tests.support.cells import hold_cuts_and_resets, hold_vectors_in_files

SIZES = {"hidden_size": 16, "embedding_size": 6}
BUCKETS = 40
TEXTS = (
    b"It was GOOD, wasn't it?  No 2nd film was. ",
    "caf\u00e9s \u2014 (too) dear; I'd go, though".encode(),
    b"...a!",
    b"onelongword",
    bytes(range(256)),  # every end of a range of letters or digits, and what stands beside it
)
NONE = torch.zeros(1, 2, dtype=torch.long)


def word_model(**changes):
    config = ModelConfig(
        cell="mlstm_words",
        **SIZES,
        **{"ngram_length": 3, "ngram_buckets": 30, "word_buckets": BUCKETS, **changes},
    )
    model = build_model(config, seed=3).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        model.layers[0].words.normal_(generator=generator)
        model.layers[0].ngrams.normal_(generator=generator)
    return model


def words_at(text):
    """Return the word so far and the last whole word, at the end of a text; empty for none."""
    words = re.findall(rb"[a-z0-9'\x80-\xff]+|[^a-z0-9'\x80-\xff]", text.lower())
    is_open = bool(words) and re.fullmatch(rb"[a-z0-9'\x80-\xff]+", words[-1])
    whole = [word for word in words[:-1] if re.match(rb"[a-z0-9'\x80-\xff]", word)]
    return words[-1] if is_open else b"", whole[-1] if whole else b""


def hash_of(word):
    """Return the hash of a word: Python's whole numbers, one letter after the other."""
    hashed = 0
    for letter in word:
        hashed = (hashed * 1_000_003 + letter + 1) % 2**31
    return hashed


def column(text):
    return torch.tensor(list(text))[:, None]


@pytest.mark.parametrize("text", TEXTS)
def test_each_byte_has_the_hashes_of_its_word_and_the_one_before(text):
    expected = [[hash_of(word) for word in words_at(text[:end])] for end in range(1, len(text) + 1)]
    assert hash_words(column(text), NONE).squeeze(1).tolist() == expected


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("T", [1, 2, 5])
def test_words_span_windows(text, T):
    whole, carried, parts = hash_words(column(text), NONE), NONE, []
    for window in column(text).split(T):
        parts.append(hash_words(window, carried))
        carried = parts[-1][-1]
    assert torch.equal(torch.cat(parts), whole)


def test_lanes_do_not_read_each_other():
    length = min(map(len, TEXTS))
    together = torch.cat([column(text[:length]) for text in TEXTS], dim=1)
    found = hash_words(together, NONE.expand(len(TEXTS), 2))
    for lane, text in enumerate(TEXTS):
        assert torch.equal(found[:, lane], hash_words(column(text[:length]), NONE)[:, 0])


def test_hashes_of_a_long_window_do_not_overflow():
    text = (b"\xff" * 3000 + b" ") * 3
    found = hash_words(column(text), NONE)[-1, 0].tolist()
    assert found == [0, hash_of(b"\xff" * 3000)]


def bucket(hashed):
    mixed = ((hashed ^ (hashed // 2**15)) * 1_000_003) % 2**31
    return (mixed ^ (mixed // 2**15)) % BUCKETS


def test_the_vectors_of_the_words_are_added_to_what_is_read():
    model = word_model().double()
    table = model.layers[0].words
    with_words = model.layers[0].look_back
    text = TEXTS[0]
    state = model.initial_state(1).layer(0)
    both, _ = with_words(column(text), state)
    of_ngrams, _ = super(type(model.layers[0]), model.layers[0]).look_back(column(text), state)
    expected = torch.stack(
        [
            sum(table[i, bucket(hash_of(word))] for i, word in enumerate(words_at(text[:end])))
            for end in range(1, len(text) + 1)
        ]
    )
    torch.testing.assert_close((both - of_ngrams)[:, 0], expected, rtol=1e-12, atol=1e-12)


def test_a_fresh_model_is_an_mlstm_without_words():
    model = build_model(ModelConfig(cell="mlstm_words", **SIZES), seed=3)
    plain = build_model(ModelConfig(**SIZES), seed=3)
    tokens = torch.tensor([list(TEXTS[0])])
    expected, _ = plain(tokens, plain.initial_state(1))
    found, _ = model(tokens, model.initial_state(1))
    # The plain one projects its table of tokens: sums in another order.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_model_may_be_cut_anywhere_and_lanes_may_be_reset(layers):
    model = word_model(layers=layers)
    tokens = torch.tensor([list(text * 8)[:40] for text in TEXTS])
    hold_cuts_and_resets(model, tokens, [1, 2, 5, 32], "words")


def test_only_the_vectors_of_words_that_were_read_have_a_gradient():
    model = word_model()
    text = TEXTS[0]
    model(torch.tensor([list(text)]), model.initial_state(1))[0].sum().backward()
    read = {
        (i, bucket(hash_of(word)))
        for end in range(1, len(text) + 1)
        for i, word in enumerate(words_at(text[:end]))
    }
    moved = model.layers[0].words.grad.abs().sum(-1).nonzero().tolist()
    assert {tuple(place) for place in moved} == read


@pytest.mark.parametrize("quantized", [False, True])
def test_a_saved_model_has_its_words(quantized, tmp_path):
    hold_vectors_in_files(word_model(), "words", tmp_path, quantized=quantized)


def test_pieces_of_words_are_refused():
    with pytest.raises(InputError, match=r"finds words in bytes; the 4096 tokens .* mlstm_ngrams"):
        ModelConfig(cell="mlstm_words", vocabulary_size=4096)


def test_only_its_own_cell_is_described_by_the_number_of_words():
    described = {
        cell: set(ModelConfig(cell=cell).architecture())
        for cell in ("mlstm", "mlstm_ngrams", "mlstm_words")
    }
    assert described["mlstm_ngrams"] - described["mlstm"] == {"ngram_length", "ngram_buckets"}
    assert described["mlstm_words"] - described["mlstm_ngrams"] == {"word_buckets"}
