"""`classify` in Python: the same rows, counts, shards and resumed files as of the command."""

import csv
import json
import logging

import numpy as np
import pytest

from mlstm_sentiment import SentimentClassifier, Shard, Sink, Source, TableOptions, classify
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from tests.support.heads import regression

ROWS = 200


@pytest.fixture
def classifier(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    weights = np.random.default_rng(0).normal(size=12).astype(np.float32)
    digest = model_digest(load_model(tmp_path / "model").model)
    head = regression(weights, 0.0, ("bad", "good"), 4, digest=digest)
    save_head(tmp_path / "model/classifier", head)
    return SentimentClassifier.from_pretrained(tmp_path / "model")


@pytest.fixture
def table(tmp_path):
    """A table of which every seventh text is missing, and every seventh a placeholder."""
    path = tmp_path / "comments.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "comment", "product"])
        for n in range(ROWS):
            text = {3: "", 5: "N/A"}.get(n % 7, f"comment {n}, fine")
            rows.writerow([n, text, f"p{n % 3}"])
    return path


def test_rows_and_counts_are_those_of_the_command(classifier, table, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    words = ["--model", str(tmp_path / "model"), "--input", str(table), "--text-key", "comment"]
    dispatch(["classify", *words, "--by", "product", "--output", str(tmp_path / "command.jsonl")])
    rows = classify(
        Source(table, "comment", by="product"), classifier, Sink(tmp_path / "python.jsonl")
    )
    yielded = list(rows)
    assert (tmp_path / "python.jsonl").read_bytes() == (tmp_path / "command.jsonl").read_bytes()
    lines = (tmp_path / "python.jsonl").read_text().splitlines()
    assert yielded == list(map(json.loads, lines))
    assert rows.summary.total.total() == ROWS
    assert "\n".join(rows.summary.lines()) in caplog.text


def test_a_table_in_memory_is_refused_with_the_way_to_its_answers(classifier):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["fine", "broken"]}, index=["a", "b"])
    with pytest.raises(InputError, match=r"location is a DataFrame; .*\.to_frame\(\)"):
        classify(frame, classifier)
    with pytest.raises(InputError):
        Source(texts=frame)
    assert list(classifier(frame["text"]).to_frame().index) == ["a", "b"]


def test_columns_with_a_taken_name_are_renamed_and_reported_once(classifier, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "comments.csv"
    path.write_text("comment,label,input_label\n" + "It is fine,a,b\n" * 3)
    rows = list(classify(Source(path, "comment"), classifier))
    assert [(row["input_label"], row["input_input_label"]) for row in rows] == [("a", "b")] * 3
    said = "renamed label, input_label of the input to input_label, input_input_label"
    assert [m for m in caplog.messages if "renamed" in m] == [f"{path}: {said}"]


class Expected(ProgressBar):
    """Records how much work is expected in all, at every batch."""

    def __init__(self):
        super().__init__("", shown=False)
        self.totals = []

    def expect(self, total):
        self.totals.append(total)


def test_progress_expects_the_work_of_all_rows(classifier, table):
    progress = Expected()
    list(classify(Source(table, "comment"), classifier, progress=progress))
    assert len(progress.totals) > 1
    assert progress.totals[0] == pytest.approx(progress.totals[-1], rel=0.1)
    assert progress.totals[-1] == progress._done


def test_a_loop_that_is_left_goes_on_when_it_is_repeated(classifier, table, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for suffix in ("csv", "jsonl"):
        sink, source = Sink(tmp_path / f"out.{suffix}"), Source(table, "comment", by="product")
        whole = classify(source, classifier, Sink(tmp_path / f"whole.{suffix}"))
        expected = list(whole)
        for number, _ in enumerate(classify(source, classifier, sink)):
            if number == 100:  # in the second batch
                break
        assert not sink.path.exists()
        caplog.clear()
        again = classify(source, classifier, sink)
        assert list(again) == expected
        assert "continues after 192 rows" in caplog.text
        assert again.summary.lines() == whole.summary.lines()
        assert sink.path.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


def test_what_has_been_written_is_not_classified_again(classifier, table, tmp_path, monkeypatch):
    sink, source = Sink(tmp_path / "out.jsonl"), Source(table, "comment")
    next(iter(classify(source, classifier, sink)))
    counts, predict_all = [], SentimentClassifier.predict_all
    monkeypatch.setattr(
        SentimentClassifier,
        "predict_all",
        lambda self, texts, advance: counts.append(len(texts.encoded)) or predict_all(self, texts),
    )
    assert len(list(classify(source, classifier, sink))) == ROWS
    assert sum(counts) < ROWS - 64


def test_shards_have_the_rows_of_the_whole_between_them(classifier, table):
    for number in (1, 2, 3):
        source = Source(table, "comment", shard=Shard(number, 3))
        part = [int(row["id"]) for row in classify(source, classifier)]
        assert part == list(range(number - 1, ROWS, 3))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"threshold": 1.0}, "good"),
        ({"unsure": (0.0, 0.0)}, "unsure"),
        ({"sides": True}, "unsure"),
    ],
)
def test_other_options_of_the_classifier_begin_anew(classifier, table, tmp_path, changed, word):
    sink, source = Sink(tmp_path / "out.jsonl"), Source(table, "comment")
    next(iter(classify(source, classifier, sink)))
    other = SentimentClassifier(tmp_path / "model", **changed).fit()
    assert word not in {row["label"] for row in classify(source, other, sink)}
    assert (tmp_path / "out.jsonl.kept-1").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either --text or --input"),
        ({"location": "a.csv", "texts": ("a",)}, "either --text or --input"),
        ({"location": "-", "shard": Shard(1, 2)}, "--shard is for the rows of an --input file"),
        ({"texts": ("a",), "text_key": "x"}, "--text-key is for the rows of an --input"),
        ({"texts": ("a",), "by": "x"}, "--by is for the rows of an --input"),
        ({"location": "a.csv", "shard": (1, 2)}, r"shard is \(1, 2\); give a Shard"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        Source(**options)


def test_texts_need_no_file_and_a_folder_is_made_for_the_rows(classifier, table, tmp_path):
    sink = Sink(tmp_path / "new" / "out.csv")
    rows = classify(Source(texts=("one", "two")), classifier, sink)
    assert [row["text"] for row in rows] == ["one", "two"]
    assert sink.path.read_text().startswith("text,label,")
    # A file and a shard may be named by words.
    assert Source(table, shard="2/3").shard == Shard(2, 3)
    assert list(classify(str(table), classifier)) == list(classify(Source(table), classifier))


def test_faults_are_reported_before_the_first_row(classifier, table):
    with pytest.raises(InputError, match="no key 'text'"):
        classify(Source(table, "text"), classifier)
    with pytest.raises(InputError, match="--by nothing: no such column"):
        classify(Source(table, "comment", by="nothing"), classifier)
    with pytest.raises(InputError, match="only 200 rows"):
        classify(Source(table, "comment", shard=Shard(300, 400)), classifier)
    with pytest.raises(InputError, match="this is an input"):
        classify(Source(table, "comment"), classifier, Sink(table))
    table.write_text(f"text,n\nfine,1\n{'good ' * 7000},2\n")
    with pytest.raises(InputError, match="line 3: a cell of a workbook has at most 32,767"):
        classify(table, classifier, Sink(table.with_suffix(".xlsx")))
    classify(Source(table, shard=Shard(1, 2)), classifier, Sink(table.with_suffix(".xlsx")))
    with pytest.raises(InputError, match="--sheet is for the rows of an --input; leave it out"):
        Source(texts=["good"], table=TableOptions(sheet="May"))
    with pytest.raises(InputError, match="'3/2' is not i/n"):
        Shard(3, 2)
    with pytest.raises(InputError, match="format is 'xml'; it must be jsonl, csv, tsv or xlsx"):
        Sink("rows.csv", "xml")
    with pytest.raises(InputError, match="must end in"):
        Sink("out.ods")
    with pytest.raises(InputError, match="expected one ASCII character"):
        Source(table, table=TableOptions(delimiter="ab"))
