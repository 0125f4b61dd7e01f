"""Preparation loses nothing, depends on nothing but its inputs, and leaves no half corpus."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_utils import preparation
from data_utils.corpus import SPLITS, open_corpus
from data_utils.preparation import prepare_corpus, split_counts
from model.errors import InputError
from model.text import text_profile


def write_texts(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def reviews_of(split):
    return [
        bytes(split.tokens[a:b]) for a, b in zip(split.offsets[:-1], split.offsets[1:], strict=True)
    ]


TEXTS = [f"review number {i} " + "long " * (i % 17) for i in range(200)]


@pytest.fixture
def source(tmp_path):
    return write_texts(tmp_path / "in.jsonl", TEXTS)


def test_every_review_lands_whole_in_one_split(tmp_path, source):
    prepare_corpus([source], tmp_path / "out", split=(8, 1, 1))
    corpus = open_corpus(tmp_path / "out")
    found = [review for name in SPLITS for review in reviews_of(corpus.splits[name])]
    expected = [text_profile("openai").encode(text) for text in TEXTS]
    assert Counter(found) == Counter(expected)
    assert found != expected  # shuffled
    assert [corpus.splits[name].reviews for name in SPLITS] == [160, 20, 20]


def test_the_number_of_buckets_changes_nothing(tmp_path, source, monkeypatch):
    prepare_corpus([source], tmp_path / "one")
    monkeypatch.setattr(preparation, "BUCKET_BYTES", 500)
    prepare_corpus([source], tmp_path / "many")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "many" / path.name).read_bytes()


def test_the_seed_decides_the_order(tmp_path, source):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        prepare_corpus([source], tmp_path / name, seed=seed)
    a, b, c = ((tmp_path / name / "train.bin").read_bytes() for name in "abc")
    assert a == b != c


def test_shuffled_positions_are_uniform(tmp_path):
    source = write_texts(tmp_path / "in.jsonl", [f"{i:05d}" for i in range(4000)])
    prepare_corpus([source], tmp_path / "out", split=(1, 0, 0), profile="raw")
    order = np.array(
        [int(review) for review in reviews_of(open_corpus(tmp_path / "out").splits["train"])]
    )
    correlation = np.corrcoef(order, np.arange(4000))[0, 1]
    assert abs(correlation) < 4 / 4000**0.5  # four standard errors


@given(
    st.integers(3, 500),
    st.tuples(st.floats(0.5, 1000), st.floats(0, 10), st.floats(0, 10)),
)
def test_split_counts_share_out_everything(reviews, parts):
    counts = split_counts(reviews, parts)
    assert sum(counts) == reviews
    for count, part in zip(counts, parts, strict=True):
        assert count > 0 or part == 0
        # One may go to each of two empty parts; the share itself is rounded in its last bits.
        assert abs(count - reviews * part / sum(parts)) <= 2 + reviews * 1e-15


def test_meta_describes_the_corpus(tmp_path, source):
    meta = prepare_corpus([source], tmp_path / "out", seed=4)
    assert meta == json.loads((tmp_path / "out" / "meta.json").read_text())
    assert meta["format_version"] == 1
    assert meta["text_profile"] == "openai"
    assert meta["seed"] == 4
    assert meta["sources"] == ["in.jsonl"]
    assert meta["reading"]["records"] == 200


def test_an_interrupted_preparation_leaves_nothing(tmp_path, source, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(preparation, "write_json", fail)
    with pytest.raises(OSError, match="No space"):
        prepare_corpus([source], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_leftovers_of_a_killed_preparation_do_not_matter(tmp_path, source):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "bucket-000").write_bytes(b"half a record")
    prepare_corpus([source], tmp_path / "out")
    assert open_corpus(tmp_path / "out").splits["train"].reviews == 198


def test_an_existing_folder_is_refused(tmp_path, source):
    prepare_corpus([source], tmp_path / "out")
    with pytest.raises(InputError, match="exists already"):
        prepare_corpus([source], tmp_path / "out")


@pytest.mark.parametrize("split", [(0, 1, 1), (1, -1, 1), (1, 1), (float("nan"), 1, 1)])
def test_bad_splits_are_refused(tmp_path, source, split):
    with pytest.raises(InputError, match="--split"):
        prepare_corpus([source], tmp_path / "out", split=split)


def test_too_few_reviews_for_the_splits(tmp_path):
    source = write_texts(tmp_path / "in.jsonl", ["a", "b"])
    with pytest.raises(InputError, match="2 reviews cannot fill 3 splits"):
        prepare_corpus([source], tmp_path / "out")


def test_a_corpus_changed_after_preparation_is_refused(tmp_path, source):
    prepare_corpus([source], tmp_path / "out")
    train = tmp_path / "out" / "train.bin"
    train.write_bytes(train.read_bytes()[:-7])
    with pytest.raises(InputError, match=r"train\.bin: has .* bytes were prepared"):
        open_corpus(tmp_path / "out")
    train.unlink()
    with pytest.raises(InputError, match="is missing"):
        open_corpus(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version 2 is newer"),
        ({"format_version": None}, "has no format_version"),
        ({"splits": {}}, "does not describe"),
        ({"text_profile": None}, "has no text_profile"),
    ],
)
def test_meta_of_another_kind_is_refused(tmp_path, source, change, message):
    meta = prepare_corpus([source], tmp_path / "out")
    (tmp_path / "out" / "meta.json").write_text(json.dumps(meta | change))
    with pytest.raises(InputError, match=message):
        open_corpus(tmp_path / "out")


def test_a_folder_that_is_no_corpus(tmp_path):
    with pytest.raises(InputError, match="not a prepared corpus"):
        open_corpus(tmp_path)
