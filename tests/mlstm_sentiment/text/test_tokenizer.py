"""Tokenizers lose nothing, agree with SentencePiece, and are read back as they were written."""

import hashlib
import io
import os
from functools import cache

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tokenizers import check_same_tokenizer, load_tokenizer, save_tokenizer
from mlstm_sentiment.text.subwords import _LOSSLESS, SubwordTokenizer, train_vocabulary
from mlstm_sentiment.text.tokenizer import BYTES, TOKENIZER_FILE
from tests.conftest import small_vocabulary

REVIEWS = [f"\n {review.text} " for review in synthetic_reviews(50, seed=21)]
NASTY = (
    *("", " ", "   ", "\n ", "\r\n\t", "a\0b", "\0", "\u2581", "x\u2581\u2581 y", "\u2585", "<s>"),
    *("<unk></s>", "<0x41>", "\ufeffbom", "\ufffd?", "\u2028", "e\u0301", "\ufb01", "\uff21"),
    *("\U0001f600", "\U0010ffff", "\uffff", "\u65e5\u672c", "z" * 300, "  two  spaces  "),
)
pieces = st.one_of(
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=8),
    st.sampled_from([text.encode() for text in (*NASTY, *REVIEWS[:5])]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(parts=st.lists(pieces, max_size=5))
def test_nothing_is_lost(tokenizer, parts):
    text = b"".join(parts)
    tokens = tokenizer.encode(text)
    assert tokens.dtype == tokenizer.dtype
    assert tokenizer.decode(tokens) == text
    assert tokenizer.byte_lengths(tokens).sum() == tokenizer.count_bytes(tokens) == len(text)
    assert tokens.max(initial=0) < tokenizer.vocabulary_size


@pytest.mark.parametrize("text", NASTY)
def test_every_nasty_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text.encode())) == text.encode()


trained = cache(small_vocabulary)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tokens_are_those_of_sentencepiece(kind):
    tokenizer = trained(kind, 350)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.content)
    for text in REVIEWS:
        tokens = tokenizer.encode(text.encode())
        assert tokens.tolist() == theirs.encode(text)
        assert len(tokens) < 0.8 * len(text)  # pieces, not bytes


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_texts_give_the_same_vocabulary(kind):
    first, again, larger = trained(kind, 350), small_vocabulary(kind, 350), trained(kind, 360)
    assert first.content == again.content
    assert first.fingerprint != larger.fingerprint


@pytest.mark.parametrize(("size", "said"), [(260, r"at least \d+$"), (40_000, "or more text")])
def test_a_size_that_the_texts_do_not_allow(size, said):
    texts = (text.encode() for text in REVIEWS)
    with (
        open(os.devnull, "w") as log,
        pytest.raises(InputError, match=f"another --vocabulary-size, {said}"),
    ):
        train_vocabulary(texts, "bpe", size, log)


def test_only_the_mark_of_spaces_itself_is_spelled_byte_by_byte(subwords):
    parts = b"It works, and the ", "\u2581".encode(), b" works, too."
    tokens = [subwords.encode(part) for part in parts]
    assert len(tokens[1]) == 3
    np.testing.assert_array_equal(subwords.encode(b"".join(parts)), np.concatenate(tokens))


def test_an_opening_leaves_its_space_to_the_next_token(subwords):
    tokens, rest = subwords.opening(b"\n I thought ")
    assert (subwords.decode(tokens), rest) == (b"\n I thought", b" ")
    tokens, rest = BYTES.opening(b"\n I thought ")
    assert (BYTES.decode(tokens), rest) == (b"\n I thought ", b"")


def load(folder, **description):
    return load_tokenizer(folder, description, folder / "meta.json")


def test_what_was_written_is_read(tmp_path, subwords):
    save_tokenizer(tmp_path, subwords)
    assert load(tmp_path, **subwords.describe()).fingerprint == subwords.fingerprint
    assert load(tmp_path, **BYTES.describe()) is BYTES


def test_what_is_not_as_described_is_refused(tmp_path, subwords):
    described = subwords.describe()
    with pytest.raises(InputError, match=f"{TOKENIZER_FILE}: no such file"):
        load(tmp_path, **described)
    content = bytearray(subwords.content)
    content[-1] ^= 1
    (tmp_path / TOKENIZER_FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"does not match the digest in meta\.json"):
        load(tmp_path, **described)
    with pytest.raises(InputError, match="tokenizer 'words' is unknown"):
        load(tmp_path, tokenizer="words")


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, subwords, capfd):
    piece = max(subwords.spellings, key=len).replace(b" ", "\u2581".encode())
    no_utf8 = subwords.content.replace(piece, b"\xff" * len(piece))
    for content in (b"words", b"", no_utf8):
        (tmp_path / TOKENIZER_FILE).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        with pytest.raises(InputError, match="not a SentencePiece model"):
            load(tmp_path, tokenizer="bpe", tokenizer_sha256=digest)
    assert len(capfd.readouterr().err.splitlines()) < 3  # the library's own words, once each


def foreign_vocabulary(**settings):
    """Train a vocabulary with SentencePiece's own defaults, except for some settings."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(REVIEWS * 4), model_writer=content, minloglevel=2, **settings
    )
    return content.getvalue()


def test_a_vocabulary_that_cannot_say_every_byte_is_refused():
    with pytest.raises(InputError, match=r"cannot encode every byte.*--byte_fallback=true"):
        SubwordTokenizer("unigram", foreign_vocabulary(vocab_size=60))


@pytest.mark.parametrize(
    "changes",
    [
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "nfkc_cf"},
        {"add_dummy_prefix": True},
        {"remove_extra_whitespaces": True},
    ],
)
def test_a_vocabulary_that_changes_the_text_is_refused(tmp_path, changes):
    content = foreign_vocabulary(vocab_size=330, model_type="bpe", **{**_LOSSLESS, **changes})
    (tmp_path / TOKENIZER_FILE).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(InputError, match=r"changes the text '.*'; train one with"):
        load(tmp_path, tokenizer="bpe", tokenizer_sha256=digest)


def test_a_foreign_vocabulary_that_changes_nothing_is_read():
    tokenizer = SubwordTokenizer(
        "bpe", foreign_vocabulary(vocab_size=330, model_type="bpe", **_LOSSLESS)
    )
    text = "\ttwo  spaces\u00a0and \ufb01ne e\u0301 ".encode()
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_rule_under_the_name_of_identity_is_refused(tmp_path):
    content = foreign_vocabulary(
        vocab_size=330, model_type="bpe", **{**_LOSSLESS, "normalization_rule_name": "nfkc"}
    )
    renamed = content.replace(b"\n\x04nfkc", b"\n\x04\x00\x00\x00\x00")
    with pytest.raises(InputError, match="changes the text"):
        SubwordTokenizer("bpe", renamed)


def test_different_tokenizers_have_different_fingerprints(subwords):
    check_same_tokenizer("corpus", subwords, subwords, "the model's")
    with pytest.raises(InputError, match=r"its tokenizer is bytes, but the model's is bpe of 400"):
        check_same_tokenizer("corpus", BYTES, subwords, "the model's")
    with pytest.raises(InputError, match=r"but the model's is bytes; prepare .* --tokenizer bytes"):
        check_same_tokenizer("corpus", subwords, BYTES, "the model's")
