"""Joined corpora: all text to learn from, and the first one's held-out reviews, as they were."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from data_utils.corpus import SPLITS, open_corpus
from data_utils.preparation.preparation import Preparation, check_corpus, prepare_corpus
from experiments.models import mixture
from experiments.models.join import join_corpora
from mlstm_sentiment.errors import InputError
from tests.data_utils.splits import reviews_in, write_texts


def prepared(folder, name, texts, **settings):
    source = write_texts(folder / f"{name}.jsonl", texts)
    prepare_corpus([source], folder / name, Preparation(**settings))
    return folder / name


@pytest.fixture
def products(tmp_path):
    texts = [f"product {i} " + "fine " * (i % 5) for i in range(60)]
    return prepared(tmp_path, "products", texts, split=(8, 1, 1))


@pytest.fixture
def films(tmp_path):
    return prepared(tmp_path, "films", [f"film {i}" for i in range(40)], split=(1, 0, 0))


def test_the_fingerprint_of_a_joined_corpus_is_what_it_was(tmp_path):
    """So a run on a corpus that was joined before resumes on one that is joined today."""
    texts = [f"product {i} " + "fine " * (i % 5) for i in range(300)]
    first = prepared(tmp_path, "p", texts, split=(8, 1, 1))
    second = prepared(
        tmp_path, "f", [f"film {i} " + "dull " * (i % 3) for i in range(200)], split=(1, 0, 0)
    )
    join_corpora([first, second], tmp_path / "both")
    assert (
        open_corpus(tmp_path / "both").fingerprint
        == "82d3d442def50cf9 c7734b8663b8c329 69760077e527d700"
    )


def test_train_is_all_reviews_mixed_and_the_rest_is_the_first_ones(products, films, tmp_path):
    meta = join_corpora([products, films], tmp_path / "both")
    train = reviews_in(tmp_path / "both")
    expected = reviews_in(products) + reviews_in(films)
    assert Counter(train) == Counter(expected)
    switches = sum((b"film" in a) != (b"film" in b) for a, b in pairwise(train))
    assert switches > 20  # of 38 that a random order has on average; 1 if end to end
    for name in ("valid", "test"):
        assert reviews_in(tmp_path / "both", name) == reviews_in(products, name)
        assert meta["splits"][name] == open_corpus(products).meta["splits"][name]
    assert check_corpus(tmp_path / "both") == meta["splits"]
    assert meta["sources"] == ["products.jsonl", "films.jsonl"]
    assert meta["reading"]["records"] == 100


def test_held_out_reviews_of_the_first_are_not_learned_from(products, tmp_path):
    held_out = [
        review.decode().strip()
        for name in ("valid", "test")
        for review in reviews_in(products, name)
    ]
    other = prepared(tmp_path, "other", [*held_out, "a film"], split=(1, 0, 0))
    join_corpora([products, other], tmp_path / "both")
    counts = Counter(review for name in SPLITS for review in reviews_in(tmp_path / "both", name))
    assert len(counts) == 61
    assert set(counts.values()) == {1}


def test_corpora_of_one_vocabulary_are_joined(tmp_path):
    texts = [f"a review of {i} words, or more" for i in range(300)]
    trained = {"tokenizer": "bpe", "vocabulary_size": 300}
    first = prepared(tmp_path, "first", texts, split=(8, 1, 1), **trained)
    few = ["a film " * 9] * 3
    second = prepared(tmp_path, "second", few, split=(1, 0, 0), tokenizer=str(first))
    meta = join_corpora([first, second], tmp_path / "both")
    assert check_corpus(tmp_path / "both") == meta["splits"]  # which counts tokens and bytes
    assert Counter(reviews_in(tmp_path / "both")) == Counter(reviews_in(first) + reviews_in(second))
    assert meta["splits"]["train"]["tokens"] < meta["splits"]["train"]["bytes"]


def test_what_cannot_be_joined_is_refused(products, films, tmp_path):
    raw = prepared(tmp_path, "raw", ["a film"], split=(1, 0, 0), text_profile="raw")
    pieces = prepared(
        tmp_path, "pieces", [f"film number {i}" for i in range(99)], split=(1, 0, 0),
        tokenizer="bpe", vocabulary_size=300,
    )  # fmt: skip
    out = tmp_path / "out"
    for folders, message in (
        ([products], "two corpora or more"),
        ([products, raw], "raw: has text profile raw, but .*products has openai; prepare it"),
        ([products, pieces], "pieces: its tokenizer is .* bytes; prepare the corpus with"),
        ([products, tmp_path / "none"], "none: not a prepared corpus"),
    ):
        with pytest.raises(InputError, match=message):
            join_corpora(folders, out)
        assert not out.exists()
    with pytest.raises(InputError, match="films: exists already"):
        join_corpora([products, films], films)
    with pytest.raises(InputError, match="name a new folder"):
        join_corpora([products, films], Path("."))


def test_train_may_be_that_of_the_others_alone(products, films, tmp_path):
    meta = join_corpora([products, films], tmp_path / "mixture", train_of_others=True)
    assert Counter(reviews_in(tmp_path / "mixture")) == Counter(reviews_in(films))
    assert reviews_in(tmp_path / "mixture", "valid") == reviews_in(products, "valid")
    assert check_corpus(tmp_path / "mixture") == meta["splits"]


def test_a_mixture_has_as_much_of_things_films_and_sentences(products, tmp_path, monkeypatch):
    """Its texts are those of their sources, and no film gives both reviews and sentences."""
    monkeypatch.setattr(mixture, "BYTES", 500)
    whole = [f"Film {n} is long. I like part {n}! Is {n} good?" for n in range(40)]
    films = write_texts(tmp_path / "films.jsonl", whole)
    words = ["mixture", "--corpus", products, "--films", films, "--output", tmp_path / "mixed"]
    monkeypatch.setattr("sys.argv", list(map(str, words)))
    mixture.main()
    read = {}
    for name in ("amazon", "films", "sentences"):
        lines = (tmp_path / "mixed" / f"{name}.jsonl").read_text().splitlines()
        read[name] = [json.loads(line)["text"] for line in lines]
        assert sum(map(len, read[name])) in range(500, 600)
    train = {review.decode().strip() for review in reviews_in(products)}
    assert set(read["amazon"]) <= train
    assert set(read["films"]) <= set(whole)
    cut = {s for text in set(whole) - set(read["films"]) for s in re.split(r"(?<=[.!?]) ", text)}
    assert set(read["sentences"]) <= cut
