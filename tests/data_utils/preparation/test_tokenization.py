"""A corpus of a vocabulary's tokens holds the text of the corpus of bytes, whatever interrupts."""

import multiprocessing
import re
import shutil
import threading
import time

import numpy as np
import pytest

from data_utils.corpus import SPLITS, open_corpus
from data_utils.preparation import preparation, vocabulary
from data_utils.preparation.preparation import Preparation, check_corpus
from data_utils.preparation.vocabulary import (
    Text,
    VocabularyConfig,
    _pieces,
    _sample_reviews,
    make_tokenizer,
)
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.text.tokenizer import SUBWORD_KINDS, TOKENIZER_FILE
from tests.data_utils.preparation.interruptions import (
    change_unnoticed,
    interrupted_at,
    interrupted_removal,
)
from tests.data_utils.splits import files_of, make_split, reviews_of, write_texts
from tests.support.folders import contents
from tests.support.runs import ROOT

EXTRA = ["caf\u00e9 \U0001f600 \u2581 \0 two  spaces", "<s> \ufffd", "line\nbreak", "x"]
TEXTS = [review.text for review in synthetic_reviews(300, seed=8)] + EXTRA


def prepare_corpus(inputs, output, workers=1, tokenizer="bpe", size=330, sample=20_000, **settings):
    if tokenizer in SUBWORD_KINDS:
        settings |= {"vocabulary_size": size, "tokenizer_sample": sample}
    settings = {"split": (8, 1, 1), "tokenizer": tokenizer, **settings}
    return preparation.prepare_corpus(inputs, output, Preparation(**settings), workers)


@pytest.fixture
def source(tmp_path):
    return write_texts(tmp_path / "in.jsonl", TEXTS)


@pytest.fixture
def whole(tmp_path, source):
    prepare_corpus([source], tmp_path / "whole")
    return tmp_path / "whole"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_text_is_that_of_the_corpus_of_bytes(tmp_path, source, kind):
    meta = prepare_corpus([source], tmp_path / "out", tokenizer=kind)
    of_bytes = prepare_corpus([source], tmp_path / "bytes", tokenizer="bytes")
    corpus, expected = (open_corpus(tmp_path / name) for name in ("out", "bytes"))
    assert (corpus.tokenizer.kind, corpus.tokenizer.vocabulary_size) == (kind, 330)
    for name in SPLITS:
        assert reviews_of(corpus.splits[name]) == reviews_of(expected.splits[name])
        size = meta["splits"][name]
        assert size["bytes"] == of_bytes["splits"][name]["bytes"]
        assert size["tokens"] == len(corpus.splits[name].tokens) < size["bytes"]
    assert corpus.splits["train"].tokens.dtype == np.uint16
    assert (meta["format_version"], of_bytes["format_version"]) == (2, 1)
    assert check_corpus(tmp_path / "out") == meta["splits"]


def test_neither_processes_nor_stretches_change_anything(tmp_path, source, whole, monkeypatch):
    monkeypatch.setattr(vocabulary, "_TOKENIZED_BYTES", 3000)
    prepare_corpus([source], tmp_path / "two", workers=2)
    assert files_of(tmp_path / "two") == files_of(whole)
    assert TOKENIZER_FILE in files_of(whole)


def test_an_interruption_does_not_cost_what_was_read(tmp_path, source, whole):
    with interrupted_at("training a"):
        prepare_corpus([source], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    change_unnoticed(source, b" the ", b" THE ")  # which would show that it was read again
    prepare_corpus([source], tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(whole)
    assert {path.name for path in contents(tmp_path)} == {"in.jsonl", "out", "whole"}


def test_an_interruption_of_the_final_removal_continues(tmp_path, source, whole):
    with interrupted_removal("text", "train.bin"):
        prepare_corpus([source], tmp_path / "out", tokenizer=str(whole))
    prepare_corpus([source], tmp_path / "out", tokenizer=str(whole))
    assert files_of(tmp_path / "out") == files_of(whole)


def test_another_vocabulary_of_the_same_folder_is_another_request(tmp_path, source, whole):
    borrowed = tmp_path / "borrowed"
    shutil.copytree(whole, borrowed)
    prepare_corpus([source], tmp_path / "out", tokenizer=str(borrowed))
    shutil.rmtree(borrowed)
    prepare_corpus([source], borrowed, size=340)
    with pytest.raises(InputError, match="out: exists already"):
        prepare_corpus([source], tmp_path / "out", tokenizer=str(borrowed))


def test_a_vocabulary_that_cannot_be_keeps_what_was_read(tmp_path, source, whole):
    with pytest.raises(InputError, match=r"30,000 cannot be made: .* another --vocabulary-size"):
        prepare_corpus([source], tmp_path / "out", size=30_000)
    change_unnoticed(source, b" the ", b" THE ")
    prepare_corpus([source], tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(whole)


def test_a_trainer_that_ends_early_is_reported_and_the_reading_kept(tmp_path, source, monkeypatch):
    def kill_the_trainer():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_the_trainer, daemon=True)
    killer.start()
    with pytest.raises(ChildProcessError, match="a smaller --tokenizer-sample: it continues"):
        prepare_corpus([source], tmp_path / "out")
    killer.join()
    assert list((tmp_path / "out.partial" / "blocks").glob("block-*.json"))
    monkeypatch.setattr(vocabulary, "_train", exhaust)  # in a process of its own
    with pytest.raises(ChildProcessError, match=r"memory ran out.*--tokenizer-sample"):
        prepare_corpus([source], tmp_path / "out")


def test_what_stops_the_trainer_is_said_here(tmp_path):
    """Here of a process of its own; a log that cannot be written stands for a full disk."""
    tokens = np.zeros(30, np.uint8)
    tokens.tofile(tmp_path / "train.bin")
    np.array([0, 30]).tofile(tmp_path / "train.offsets")
    text = Text(tmp_path, {"train": {"reviews": 1, "bytes": 30}})
    config = VocabularyConfig(tokenizer="bpe")
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        make_tokenizer(config, text, seed=0, log_file=tmp_path)


def exhaust(*_):
    raise MemoryError


def test_a_vocabulary_is_taken_from_a_corpus(tmp_path, whole):
    other = write_texts(tmp_path / "other.jsonl", ["quite another text"])
    prepare_corpus([other], tmp_path / "out", tokenizer=str(whole), split=(1, 0, 0))
    corpus = open_corpus(tmp_path / "out")
    assert corpus.tokenizer.fingerprint == open_corpus(whole).tokenizer.fingerprint
    assert reviews_of(corpus.splits["train"]) == [b"\n quite another text "]


def test_a_second_preparation_writes_the_tokens_of_its_own_vocabulary(tmp_path, source, whole):
    """One process prepares twice into the same folder, with two vocabularies."""
    prepare_corpus([source], tmp_path / "other", size=400)
    prepare_corpus([source], tmp_path / "out", tokenizer=str(tmp_path / "other"))
    shutil.rmtree(tmp_path / "out")
    prepare_corpus([source], tmp_path / "out", tokenizer=str(whole))
    check_corpus(tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(whole)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vocabulary_size": 257}, "--vocabulary-size is 257"),
        ({"vocabulary_size": 65_537}, "--vocabulary-size is 65537"),
        ({"tokenizer_sample": 0}, "--tokenizer-sample is 0"),
        ({"tokenizer": "words"}, "neither bytes, bpe, unigram, nor the folder"),
        ({"tokenizer": str(ROOT / "tests/fixtures/v1/corpus")}, "its tokens are bytes; use"),
        ({"tokenizer": "amazon_1024"}, "--tokenizer amazon_1024: its tokens are bytes; use"),
    ],
)
def test_impossible_vocabularies_are_refused_at_once(wrong, message):
    with pytest.raises(InputError, match=message):
        VocabularyConfig(**{"tokenizer": "bpe", **wrong})


def test_a_vocabulary_may_be_that_of_a_shipped_model_by_name():
    by_name, by_folder = (
        VocabularyConfig(tokenizer=str(name)).borrowed
        for name in ("amazon_subword_1024", SHIPPED_MODELS / "amazon_subword_1024")
    )
    assert by_name.fingerprint == by_folder.fingerprint


def test_a_sample_is_bounded_from_all_over_and_of_whole_reviews():
    split = make_split(np.random.default_rng(0).integers(20, 400, 5000))
    lengths = np.diff(split.offsets)
    chosen = _sample_reviews(split, 50_000, seed=1)
    assert 40_000 < lengths[chosen].sum() <= 50_000
    assert (np.diff(chosen) > 0).all()
    # As many from each tenth of the file as from any other, give or take four standard deviations.
    tenths = np.bincount(chosen // 500, minlength=10)
    assert abs(tenths - len(chosen) / 10).max() < 4 * (len(chosen) / 10) ** 0.5
    assert chosen.tolist() == _sample_reviews(split, 50_000, seed=1).tolist()
    assert chosen.tolist() != _sample_reviews(split, 50_000, seed=2).tolist()
    for seed in range(20):  # about half of them draw more than fits; the end is not what gives way
        chosen = _sample_reviews(split, 50_000, seed)
        assert lengths[chosen].sum() <= 50_000
        assert chosen[-1] >= 4900
    split = make_split([30] * 50)
    assert _sample_reviews(split, 1500, seed=0).tolist() == list(range(50))
    assert len(_sample_reviews(split, 1499, seed=0)) == 49
    assert len(_sample_reviews(make_split([100_000] + [30] * 1000), 20_000, seed=0)) > 100
    with pytest.raises(InputError, match="too few for one whole review"):
        _sample_reviews(split, 29, seed=0)


def test_another_vocabulary_next_to_the_corpus_is_named(whole):
    content = (whole / TOKENIZER_FILE).read_bytes()
    (whole / TOKENIZER_FILE).write_bytes(content + b"\0")
    with pytest.raises(InputError, match=r"does not match the digest in meta\.json"):
        open_corpus(whole)


def test_a_long_review_is_cut_and_does_not_hold_up_a_unigram_vocabulary(tmp_path, caplog):
    text = ("!" * 5000 + "é€😀" * 3000).encode()
    pieces = list(_pieces(text))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 4096
    assert all(piece.decode() for piece in pieces)
    assert list(_pieces(b"short")) == [b"short"]
    assert b"".join(_pieces(b"\x80" * 9000)) == b"\x80" * 9000  # not UTF-8 at all
    caplog.set_level("INFO")
    texts = [*(review.text for review in synthetic_reviews(200, seed=8)), "!" * 100_000]
    source = write_texts(tmp_path / "in.jsonl", texts)
    settings = {"tokenizer": "unigram", "sample": 200_000, "split": (1, 0, 0)}
    began = time.monotonic()
    prepare_corpus([source], tmp_path / "corpus", **settings)
    assert time.monotonic() - began < 30  # it took minutes
    assert "1 of them, are cut into pieces" in caplog.text
