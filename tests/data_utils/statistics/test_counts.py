"""Statistics against a count of our own, from files and from a prepared corpus."""

import gzip
import json
from collections import Counter
from itertools import pairwise
from statistics import median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_utils.corpus import open_corpus
from data_utils.preparation.preparation import Preparation, prepare_corpus
from data_utils.preparation.vocabulary import VocabularyConfig
from data_utils.statistics import counts as statistics
from data_utils.statistics.counts import Duplicates, Tally, describe_corpus, describe_reviews
from data_utils.statistics.table import statistics_table
from model.errors import InputError
from model.text.profiles import text_profile
from model.text.split import encode_split
from tests.support.runs import assert_refused, run

TEXTS = ["good", "bad", "good", "caf\u00e9 \u4e2d", "x" * 70_000, "bad", "bad", " a\nb "]
STARS = [5, 1.0, "4.5", None, "many", 7, "", 11]


def write_reviews(path, texts=TEXTS, stars=STARS):
    rows = [{"reviewText": t, "overall": s} for t, s in zip(texts, stars, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def counted(reviews):
    """What is to be found for some reviews, as bytes, counted the simple way."""
    lengths = [len(review) for review in reviews]
    outside = [sum(byte > 127 for byte in review) for review in reviews]
    return {
        "reviews": len(reviews),
        "bytes": sum(lengths),
        "longest": max(lengths, default=0),
        "bytes_outside_ascii": sum(outside),
        "reviews_outside_ascii": sum(map(bool, outside)),
        "duplicates": len(reviews) - len(set(reviews)),
        "byte_counts": [b"".join(reviews).count(byte) for byte in range(256)],
    }


def histogram_of(reviews, edges):
    bins = Counter(max(edge for edge in edges if edge <= len(review)) for review in reviews)
    return [bins[edge] for edge in edges]


def assert_counted(found, reviews):
    expected = counted(reviews)
    assert {key: found[key] for key in expected} == expected
    histogram = found["length_histogram"]
    assert histogram["reviews"] == histogram_of(reviews, histogram["lower_edges"])
    if reviews:
        assert found["median"] == min(median_low(map(len, reviews)), statistics.EXACT_LENGTHS)
        assert found["mean_length"] == pytest.approx(np.mean([len(r) for r in reviews]))


def test_files_of_reviews(tmp_path):
    path = write_reviews(tmp_path / "a.jsonl")
    found = describe_reviews([path])
    encoded = [text.encode() for text in TEXTS]
    assert_counted(found["parts"]["a.jsonl"], encoded)
    assert_counted(found["all"], encoded)
    assert found["all"]["stars"] == {"1": 1, "4.5": 1, "5": 1, "7": 1, "none": 2, "other": 2}


def test_texts_that_two_files_share(tmp_path):
    (tmp_path / "b").mkdir()
    paths = [write_reviews(tmp_path / "a.jsonl"), write_reviews(tmp_path / "b" / "a.jsonl")]
    found = describe_reviews(paths)
    assert [part["duplicates"] for part in found["parts"].values()] == [3, 3]
    assert found["all"]["duplicates"] == 11
    assert list(found["parts"]) == [path.as_posix() for path in paths]
    assert "5 texts of a part are in an earlier one too" in statistics_table(found)


def test_missing_and_empty_texts_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n{"text": null}\n{"text": " "}\n'))
    found = describe_reviews([path])
    assert found["all"]["reviews"] == 1
    assert found["all"]["stars"] == {}
    assert (found["reading"]["missing_text"], found["reading"]["empty_text"]) == (1, 1)


def test_a_key_of_stars_that_is_nowhere(tmp_path):
    path = write_reviews(tmp_path / "a.jsonl")
    assert describe_reviews([path], stars_key="reviewText")["all"]["stars"] == {"other": 8}
    with pytest.raises(InputError, match="no record has the key 'score'"):
        describe_reviews([path], stars_key="score")


@pytest.mark.parametrize(("block_bytes", "block_reviews"), [(4 << 20, 1 << 16), (50, 3), (1, 1)])
@pytest.mark.parametrize("split", [(2, 1, 1), (1, 0, 0)])
def test_a_prepared_corpus(tmp_path, block_bytes, block_reviews, split):
    folder = tmp_path / "corpus"
    source = write_reviews(tmp_path / "a.jsonl")
    prepare_corpus([source], folder, Preparation(split=split))
    found = describe_corpus(folder, block_bytes=block_bytes, block_reviews=block_reviews)
    everything = []
    for name, part in open_corpus(folder).splits.items():
        content = part.tokens.tobytes()
        edges = part.offsets.tolist()
        reviews = [content[a:b] for a, b in pairwise(edges)]
        assert_counted(found["parts"][name], reviews)
        everything += reviews
    assert_counted(found["all"], everything)
    assert found["text_profile"] == "openai"
    assert "train" in statistics_table(found)


@given(parts=st.lists(st.lists(st.text(max_size=12), max_size=8), min_size=1, max_size=3))
def test_any_texts_in_any_parts(parts):
    duplicates, total, everything = Duplicates(), Tally(), []
    for texts in parts:
        block = encode_split(texts, text_profile("raw"))
        encoded = [text.encode("utf-8", errors="replace") for text in texts]
        tally = Tally()
        tally.add(block)
        duplicates.add(block)
        assert_counted(tally.describe(duplicates.end_part()), encoded)
        total.merge(tally)
        everything += encoded
    assert_counted(total.describe(duplicates.count()), everything)


def test_damaged_offsets_are_refused(tmp_path):
    folder = tmp_path / "corpus"
    source = write_reviews(tmp_path / "a.jsonl")
    prepare_corpus([source], folder, Preparation(split=(1, 0, 0)))
    offsets = np.fromfile(folder / "train.offsets", "<i8")
    for wrong in (offsets[::-1], offsets + 1):
        wrong.tofile(folder / "train.offsets")
        with pytest.raises(InputError, match=r"train.offsets: does not rise"):
            describe_corpus(folder)


def test_a_token_that_the_vocabulary_lacks_is_refused(tmp_path):
    folder, source = tmp_path / "corpus", write_reviews(tmp_path / "a.jsonl")
    vocabulary = VocabularyConfig(tokenizer="bpe", size=270)
    prepare_corpus([source], folder, Preparation(split=(1, 0, 0), vocabulary=vocabulary))
    tokens = np.fromfile(folder / "train.bin", "<u2")
    tokens[len(tokens) // 2] = 0xFFFF
    tokens.tofile(folder / "train.bin")
    with pytest.raises(InputError, match="a token that its vocabulary lacks"):
        describe_corpus(folder)


def test_the_script_writes_a_table_numbers_and_a_picture(tmp_path):
    path = write_reviews(tmp_path / "a.jsonl")
    output, figure = tmp_path / "new" / "s.json", tmp_path / "new" / "s.png"
    process = run("scripts/describe_corpus.py", path, "--output", output, "--figure", figure)
    assert process.returncode == 0, process.stderr
    written = json.loads(output.read_text())
    assert written["all"]["reviews"] == len(TEXTS)
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "70,0" in process.stdout
    assert sorted(p.name for p in figure.parent.iterdir()) == ["s.json", "s.png"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["one prepared corpus"]),
        (["missing.jsonl", "--figure", "a.gif"], ["--figure a.gif", ".png"]),
    ],
)
def test_the_script_refuses_in_one_line(arguments, words):
    assert_refused(run("scripts/describe_corpus.py", *arguments), *words)


def test_a_picture_of_nothing_and_of_everything(tmp_path):
    from data_utils.statistics.figure import draw_statistics

    empty = Tally().describe(0)
    draw_statistics({"parts": {"train": empty}, "all": empty}, tmp_path / "empty.svg")
    statistics_table({"parts": {"train": empty}, "all": empty})
    paths = [write_reviews(tmp_path / name) for name in ("$x^{$.jsonl", "_b.jsonl")]
    draw_statistics(describe_reviews(paths), tmp_path / "a.pdf")  # a file's name is no formula
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
