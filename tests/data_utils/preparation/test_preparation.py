"""Preparation loses no review, depends only on its inputs, and never leaves half a corpus."""

import gzip
import json
import shutil
import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_utils.corpus import SPLITS, open_corpus
from data_utils.preparation import preparation, runs
from data_utils.preparation.preparation import Preparation, _split_counts
from data_utils.preparation.runs import _keys_of
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from tests.data_utils.preparation.interruptions import (
    acting_at,
    change_unnoticed,
    interrupted_at,
    interrupted_removal,
)
from tests.data_utils.splits import files_of, reviews_in, reviews_of, write_texts
from tests.support.folders import contents


def prepare_corpus(inputs, output, workers=1, **settings):
    return preparation.prepare_corpus(inputs, output, Preparation(**settings), workers)


SURROGATE = "\ud800"
TEXTS = [f"review number {i} " + "long " * (i % 17) for i in range(200)]


@pytest.fixture
def source(tmp_path):
    return write_texts(tmp_path / "in.jsonl", TEXTS)


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(preparation, "BLOCK_BYTES", 700)


@pytest.mark.parametrize("largest_file", [9_000], indirect=True)
def test_a_disk_that_is_full_is_named_and_the_command_goes_on(tmp_path, source, largest_file):
    with pytest.raises(OSError, match=r"File too large: '.*/corpus'$"):
        prepare_corpus([source], tmp_path / "corpus")
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    prepare_corpus([source], tmp_path / "corpus")
    assert (tmp_path / "corpus/train.bin").stat().st_size > largest_file - 2_000
    assert not (tmp_path / "corpus.partial").exists()


def test_every_review_lands_whole_in_one_split(tmp_path, source, many_blocks, monkeypatch):
    prepare_corpus([source], tmp_path / "out", split=(8, 1, 1))
    corpus = open_corpus(tmp_path / "out")
    reviews = [review for name in SPLITS for review in reviews_of(corpus.splits[name])]
    expected = [text_profile("openai").encode(text) for text in TEXTS]
    assert Counter(reviews) == Counter(expected)
    assert reviews != expected  # shuffled
    monkeypatch.setattr(runs, "_SORTED_BYTES", 900)
    prepare_corpus([source], tmp_path / "kept", split=(8, 1, 1), keep_order=True)
    kept = open_corpus(tmp_path / "kept")
    assert [r for name in SPLITS for r in reviews_of(kept.splits[name])] == expected
    assert [corpus.splits[name].reviews for name in SPLITS] == [160, 20, 20]


def test_a_second_process_does_not_touch_what_the_first_prepares(tmp_path, source):
    alone, refused = prepare_corpus([source], tmp_path / "alone"), []

    def overtake():
        with pytest.raises(InputError, match="another process is preparing it") as error:
            prepare_corpus([source], tmp_path / "out", seed=1)
        refused.append(error)

    with acting_at("records;", overtake):  # the report on the reading
        meta = prepare_corpus([source], tmp_path / "out")
    assert len(refused) == 1
    assert meta["splits"] == alone["splits"]
    assert sorted(path.name for path in contents(tmp_path)) == ["alone", "in.jsonl", "out"]


def test_a_larger_input_takes_no_more_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "BLOCK_BYTES", 1 << 15)
    monkeypatch.setattr(runs, "_SORTED_BYTES", 1 << 15)

    def most_bytes(reviews, output):
        texts = (f"{number} {'so long ' * (number % 40)}" for number in range(reviews))
        path = write_texts(tmp_path / f"{output}.jsonl", texts)
        tracemalloc.start()
        prepare_corpus([path], tmp_path / output)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most_bytes(100, "warm")  # what is imported and compiled once
    small, large, again = most_bytes(600, "a"), most_bytes(2400, "b"), most_bytes(2400, "c")
    assert min(large, again) < 1.5 * small  # of four times the text


@pytest.mark.parametrize("compress", [False, True])
def test_the_number_of_processes_changes_nothing(tmp_path, source, many_blocks, compress):
    if compress:
        path = tmp_path / "in.jsonl.gz"
        path.write_bytes(gzip.compress(source.read_bytes()))
        source = path
    prepare_corpus([source], tmp_path / "one")
    prepare_corpus([source], tmp_path / "three", workers=3)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "three")
    prepare_corpus([source], tmp_path / "other", seed=1)
    assert files_of(tmp_path / "one")["train.bin"] != files_of(tmp_path / "other")["train.bin"]


def test_keys_are_those_of_splitmix64_as_it_is_published():
    """With other keys the same command would make a corpus on which no run could resume."""
    keys = _keys_of(np.arange(1, 4, dtype=np.uint64), seed=0)
    assert [f"{key:016x}" for key in keys.tolist()] == [
        "e220a8397b1dcdaf",
        "6e789e6aa1b965f4",
        "06c45d188009454f",
    ]
    ids = np.arange(1000, dtype=np.uint64)
    assert len({*_keys_of(ids, 1).tolist(), *_keys_of(ids, 2).tolist()}) == 2000
    assert _keys_of(ids, None).tolist() == ids.tolist()


@given(st.integers(3, 500), st.tuples(st.floats(0.5, 1000), st.floats(0, 10), st.floats(0, 10)))
def test_split_counts_share_out_everything(reviews, parts):
    counts = _split_counts(reviews, parts)
    assert sum(counts) == reviews
    for count, part in zip(counts, parts, strict=True):
        assert count > 0 or part == 0
        # One may go to each of two empty parts; the share itself is rounded in its last bits.
        assert abs(count - reviews * part / sum(parts)) <= 2 + reviews * 1e-15


def unfinish(folder, blocks):
    """Leave the first blocks of an interrupted preparation as they are, and tear the others."""
    reports = sorted(folder.glob("block-*.json"))
    assert len(reports) > blocks + 2
    for report in reports[blocks:]:
        report.unlink()  # it is written last
        report.with_suffix(".bin").write_bytes(b"torn")


def test_an_interrupted_preparation_leaves_no_corpus_and_continues(tmp_path, source, many_blocks):
    prepare_corpus([source], tmp_path / "whole")
    interrupt_while_sorting(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out.partial" / ".meta.json.1f.partial").write_text("{")
    unfinish(tmp_path / "out.partial" / "blocks", 4)
    for path in (tmp_path / "out.partial" / "blocks").glob("block-*.json"):
        report = json.loads(path.read_text())  # earlier versions counted more
        report["reading"]["unreadable_references"] = 0
        path.write_text(json.dumps(report))
    prepare_corpus([source], tmp_path / "out")
    assert sorted(path.name for path in contents(tmp_path)) == ["in.jsonl", "out", "whole"]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def interrupt_while_sorting(source, output, **settings):
    with interrupted_at("records;"):  # the report on the reading, which comes before the sorting
        prepare_corpus([source], output, **settings)


@pytest.mark.parametrize("name", ["block-*.index", "block-*.json"])
def test_an_interruption_of_the_final_removal_of_blocks_continues(tmp_path, source, name):
    prepare_corpus([source], tmp_path / "whole", deduplicate=True)
    with interrupted_removal("blocks", name):
        prepare_corpus([source], tmp_path / "out", deduplicate=True)
    prepare_corpus([source], tmp_path / "out", deduplicate=True)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@pytest.mark.parametrize(
    "before", [{"text_profile": "raw"}, {"seed": 7}, {"keep_order": True}, {"deduplicate": True}]
)
def test_another_request_does_not_go_on_with_the_work_of_this_one(tmp_path, source, before):
    prepare_corpus([source], tmp_path / "whole")
    interrupt_while_sorting(source, tmp_path / "out", **before)
    prepare_corpus([source], tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_a_changed_input_and_one_that_was_not_read_strictly_are_read_again(tmp_path, source):
    interrupt_while_sorting(source, tmp_path / "out")
    write_texts(source, [*TEXTS[:50], SURROGATE])
    interrupt_while_sorting(source, tmp_path / "out")
    with pytest.raises(InputError, match="line 51"):
        prepare_corpus([source], tmp_path / "out", strict=True)
    write_texts(source, TEXTS[:50])
    prepare_corpus([source], tmp_path / "out")
    assert open_corpus(tmp_path / "out").splits["train"].reviews == 48


@pytest.mark.parametrize("texts", [TEXTS[:150], [*TEXTS, "appended"]])
def test_an_input_that_changes_while_it_is_read_is_refused(
    tmp_path, source, many_blocks, monkeypatch, texts
):
    with monkeypatch.context() as changing:
        changing.setattr(runs.ProgressBar, "advance", lambda *_: write_texts(source, texts))
        with pytest.raises(InputError, match=r"in\.jsonl: has changed while it was read; run"):
            prepare_corpus([source], tmp_path / "out")
    meta = prepare_corpus([source], tmp_path / "out")
    assert meta["reading"]["records"] == len(texts)


@pytest.mark.parametrize("settings", [{}, {"tokenizer": "bpe", "vocabulary_size": 320}])
def test_a_corpus_inside_its_input_folder_is_no_input(tmp_path, settings):
    folder = tmp_path / "data"
    folder.mkdir()
    source = write_texts(folder / "in.jsonl", TEXTS)
    (folder / "in.jsonl.source.json").write_text("{}")  # as a download leaves it
    interrupt_while_sorting(folder, folder / "a", **settings)
    prepare_corpus([folder], folder / "a", **settings)
    for argument in (folder, f"{folder}/**/*.json*"):
        meta = prepare_corpus([argument], folder / "b", seed=4)
        assert meta == json.loads((folder / "b/meta.json").read_text())
        assert (meta["sources"], meta["seed"]) == ([source.name], 4)
        shutil.rmtree(folder / "b")


def test_what_strict_reading_refused_continues_without_it(tmp_path, many_blocks):
    source = write_texts(tmp_path / "in.jsonl", [*TEXTS, SURROGATE])
    settings = {"keep_order": True, "split": (1, 0, 0)}
    with pytest.raises(InputError, match="line 201: a lone surrogate"):
        prepare_corpus([source], tmp_path / "out", strict=True, **settings)
    assert not (tmp_path / "out").exists()
    change_unnoticed(source, b"review", b"REVIEW")
    prepare_corpus([source], tmp_path / "out", **settings)
    reviews = reviews_in(tmp_path / "out")
    assert len(reviews) == 201
    unchanged = [b"review" in review for review in reviews]
    assert all(unchanged[:-20])  # only the block in which line 201 is was left to do
    assert not any(unchanged[-2:])


@pytest.mark.parametrize("ours", [None, "request.json", "meta.json"])
@pytest.mark.parametrize("name", ["notes.txt", "blocks/notes.txt", "mine/notes.txt"])
def test_a_folder_of_somebody_elses_is_not_emptied(tmp_path, source, name, ours):
    (tmp_path / "out.partial" / name).parent.mkdir(parents=True)
    (tmp_path / "out.partial" / name).write_text("mine")
    if ours:
        (tmp_path / "out.partial" / ours).write_text("{}")
    with pytest.raises(InputError, match=r"out\.partial: is needed as a work folder, but"):
        prepare_corpus([source], tmp_path / "out")
    assert (tmp_path / "out.partial" / name).read_text() == "mine"


REFUSED = [
    ("old", {}, "old: exists already"),
    ("link", {}, "link: exists already"),
    ("/", {}, "name a new folder"),
    ("in.jsonl/out", {}, r"in\.jsonl is a file, not a folder"),
    *(("out", {"split": split}, "--split") for split in ((0, 1, 1), (1, -1, 1), (1, 1))),
    ("out", {"seed": -1}, "--seed is -1; it must be at least zero"),
    ("out", {"seed": 2**63}, "--seed is too large"),
    *(("out", {"split": split}, "--split") for split in ((float("nan"), 1, 1), (1e308,) * 3)),
]


@pytest.mark.parametrize(("output", "settings", "message"), REFUSED)
def test_what_cannot_be_prepared_is_refused(tmp_path, source, output, settings, message):
    (tmp_path / "old").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")
    with pytest.raises(InputError, match=message):
        prepare_corpus([source], tmp_path / output, **settings)


def test_too_few_reviews_for_the_splits_are_refused(tmp_path):
    source = write_texts(tmp_path / "in.jsonl", ["a", "b"])
    with pytest.raises(InputError, match="2 reviews cannot fill 3 splits"):
        prepare_corpus([source], tmp_path / "out")


def test_a_finished_corpus_is_no_work_folder(tmp_path, source):
    prepare_corpus([source], tmp_path / "out.partial")
    files = files_of(tmp_path / "out.partial")
    with pytest.raises(InputError, match=r"out\.partial: is needed .* a finished corpus; rename"):
        prepare_corpus([source], tmp_path / "out")
    assert files_of(tmp_path / "out.partial") == files


@pytest.mark.parametrize("is_renamed", [True, False])
def test_what_the_same_call_has_finished_is_left_as_it_is(tmp_path, source, is_renamed):
    """A kill before the last rename leaves the whole corpus in the work folder."""
    first = prepare_corpus([source], tmp_path / "out")
    files = files_of(tmp_path / "out")
    if not is_renamed:
        (tmp_path / "out").rename(tmp_path / "out.partial")
    assert prepare_corpus([source], tmp_path / "out")["splits"] == first["splits"]
    assert files_of(tmp_path / "out") == files
    with pytest.raises(InputError, match="out: exists already"):
        prepare_corpus([source], tmp_path / "out", seed=1)


def test_of_duplicates_one_stays_however_much_is_sorted_at_a_time(tmp_path, monkeypatch):
    """A stretch begins within the blocks, as in a corpus of many megabytes."""
    texts = [f"text {i * i % 97}" for i in range(300)] + ["  text 3 "]  # equal once it is cleaned
    source = write_texts(tmp_path / "in.jsonl", texts)
    settings = {"deduplicate": True, "split": (8, 1, 1)}
    monkeypatch.setattr(preparation, "BLOCK_BYTES", 1500)
    for name, sorted_bytes in (("one", 10**6), ("many", 400)):
        monkeypatch.setattr(runs, "_SORTED_BYTES", sorted_bytes)
        meta = prepare_corpus([source], tmp_path / name, **settings)
    corpus = open_corpus(tmp_path / "many")
    reviews = [review for name in SPLITS for review in reviews_of(corpus.splits[name])]
    assert len(reviews) == len(set(reviews)) == len({i * i % 97 for i in range(300)})
    assert meta["reading"]["duplicates"] == len(texts) - len(reviews)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


def test_the_first_of_duplicates_keeps_its_place(tmp_path, monkeypatch):
    """Of equal reviews in one block, in two, and in two inputs; digests in one part or in many."""
    sources = [
        write_texts(tmp_path / "in1.jsonl", ["a", "b", "a", "c", "b", "d", "c"]),
        write_texts(tmp_path / "in2.jsonl", ["d", "e", "a", "f", "e"]),
    ]
    monkeypatch.setattr(preparation, "BLOCK_BYTES", 60)
    for at_once in (1, 1000):
        output = tmp_path / f"out{at_once}"
        settings = {"keep_order": True, "split": (1, 0, 0), "text_profile": "raw"}
        monkeypatch.setattr(preparation, "_COMPARED", at_once)
        prepare_corpus(sources, output, deduplicate=True, **settings)
        assert bytes(open_corpus(output).splits["train"].tokens) == b"abcdef"


def test_equal_files_are_shuffled_apart(tmp_path):
    """The place of a review decides its order, not its words."""
    for name in ("a", "b"):
        write_texts(tmp_path / f"{name}.jsonl", [f"{i}" for i in range(300)])
    prepare_corpus([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out", split=(1, 0, 0))
    reviews = reviews_in(tmp_path / "out")
    assert sum(a == b for a, b in pairwise(reviews)) < 10


def test_the_key_of_an_input_is_that_of_its_first_rows(tmp_path, source, caplog):
    with source.open("a") as file:
        file.write(json.dumps({"reviewText": "another shop's"}) + "\n")
    with caplog.at_level("INFO"):
        prepare_corpus([source], tmp_path / "out")
    assert "201 records; 1 without text" in caplog.text
    (tmp_path / "two.csv").write_text("Liked,Disliked\nIt is so quick,It is too loud\n")
    with pytest.raises(InputError, match=r"'Liked' and 'Disliked' both hold texts.*--text-key"):
        prepare_corpus([tmp_path / "two.csv"], tmp_path / "asked")
    both = ("Liked", "Disliked")
    meta = prepare_corpus([tmp_path / "two.csv"], tmp_path / "two", text_key=both, split=(1, 0, 0))
    assert (tmp_path / "two" / "train.bin").read_bytes().count(b"It is") == 2
    assert meta["splits"]["train"]["reviews"] == 1


def test_a_corpus_changed_after_preparation_is_refused(tmp_path, source):
    prepare_corpus([source], tmp_path / "out")
    train = tmp_path / "out" / "train.bin"
    train.write_bytes(train.read_bytes()[:-7])
    with pytest.raises(InputError, match=r"train\.bin: has .* \(expected .* bytes\); prepare"):
        open_corpus(tmp_path / "out")
    train.unlink()
    with pytest.raises(InputError, match="is missing"):
        open_corpus(tmp_path / "out")
