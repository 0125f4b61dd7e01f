"""scripts/classify.py as a process: texts, files and pipes; rows in, the same rows out."""

import csv
import json
import logging
import select
import sys
import tempfile
from contextlib import contextmanager

import numpy as np
import pandas
import pytest

from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.reading import progress
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.support.heads import regression
from tests.support.runs import assert_refused, done, piped, run

ODD = ["I like it.", 'He said "no", twice', "two\nlines, one review", "", "ça — 漢字", " NA "]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A model with a classifier inside, the same model without one, and a classifier alone."""
    folder = tmp_path_factory.mktemp("classify")
    model = emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3))
    for name in ("full", "bare"):
        save_model(folder / name, model, text_profile("openai"), {})
    digest = model_digest(load_model(folder / "bare").model)
    weights = np.random.default_rng(0).normal(size=12).astype(np.float32)
    features = SentimentFeaturizer.from_pretrained(folder / "bare").transform(ODD)
    centre = -float(np.median(features @ weights))
    fitted = regression(weights, centre, ("bad", "good"), 4, 1, digest)
    save_head(folder / "full" / "classifier", fitted)
    save_head(folder / "fitted" / "classifier", fitted)
    save_head(folder / "other", regression(weights, centre, ("0", "1"), 4, 1, "another"))
    return folder


@pytest.fixture
def classify(work, run_here):
    """Return a function that runs the script with one of the models of `work`."""

    def call(*arguments, model="full"):
        return run_here("scripts/classify.py", "--model", work / model, *arguments)

    return call


@pytest.fixture
def stream(work):
    """Return a function that starts the script on standard input; it yields input and output."""

    @contextmanager
    def begin(*options):
        words = ("--model", work / "full", "--input", "-", *options)
        with piped("scripts/classify.py", *words) as (process, source, answers):
            yield source, answers
            source.close()
            process.communicate(60)
            assert process.returncode == 0, process.errors.read_text()

    return begin


@pytest.fixture
def end_after(monkeypatch):
    """Return a function that lets Ctrl-C end the next command after so many batches."""

    def interrupt(batches):
        left, read = iter(range(batches)), SentimentClassifier.predict_all

        def read_or_end(self, texts, advance):
            if next(left, None) is None:
                monkeypatch.setattr(SentimentClassifier, "predict_all", read)
                raise KeyboardInterrupt
            return read(self, texts, advance)

        monkeypatch.setattr(SentimentClassifier, "predict_all", read_or_end)

    return interrupt


@contextmanager
def standard_input(monkeypatch, content):
    """Make standard input a file with this content; with None, a closed one (`<&-`)."""
    with tempfile.TemporaryFile() as file:
        file.write(content or b"")
        file.seek(0)
        monkeypatch.setattr(sys, "stdin", None if content is None else file)
        yield


def csv_rows(path):
    """Return the rows of a table that the command has written."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def json_rows(lines):
    return list(map(json.loads, lines.splitlines()))


def test_one_text(work):
    process = done(run(
        "scripts/classify.py", "--model", work / "bare", "--classifier", work / "fitted",
        "--text", "I like it.",
    ))  # fmt: skip
    row = json.loads(process.stdout)
    expected = SentimentClassifier.from_pretrained(work / "full")
    (probability,) = expected.predict_proba(["I like it."])[:, 1]
    assert row == {
        "text": "I like it.",
        "label": expected("I like it.")["label"],
        "probability": pytest.approx(probability, abs=1e-5),
        "sentiment": pytest.approx(2 * probability - 1, abs=1e-5),
        "unsure": bool(0.4 <= probability <= 0.6),
        "unfamiliar": None,
    }


def test_other_precisions_change_probabilities_a_little(classify):
    exact, *others = (
        json.loads(classify("--text", ODD[1], "--precision", name).stdout)["probability"]
        for name in ("exact", "bf16", "fp16")
    )
    for other in others:
        assert 0 < abs(other - exact) < 0.05


def test_csv_to_csv_and_to_json_lines(classify, work, tmp_path):
    with open(tmp_path / "in.csv", "w", newline="", encoding="utf-8") as file:
        rows = [["id", "review", "label"], *([str(n), text, "x"] for n, text in enumerate(ODD))]
        csv.writer(file).writerows(rows)
    process = done(classify("--input", tmp_path / "in.csv", "--output", tmp_path / "out.csv"))
    table = csv_rows(tmp_path / "out.csv")
    assert [(r["id"], r["review"], r["input_label"]) for r in table] == [
        (str(n), text, "x") for n, text in enumerate(ODD)
    ]
    expected = SentimentClassifier.from_pretrained(work / "full")(ODD)
    assert [r["label"] for r in table] == [answer["label"] for answer in expected]
    process = classify("--input", tmp_path / "in.csv", "--threshold", "1")
    lines = json_rows(process.stdout)
    assert [line["review"] for line in lines] == ODD
    for line, row in zip(lines, table, strict=True):
        if line["review"].strip() in ("", "NA"):
            assert line["label"] == "no answer"
            assert line["probability"] is line["unsure"] is None
            continue
        assert line["label"] in ("bad", "unsure")
        assert line["probability"] == pytest.approx(float(row["probability"]), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "shown"), [("in.csv.gz", "check: 100% 40/40 ["), ("in.parquet", "check: 40 rows [")]
)
def test_the_check_of_a_large_file_shows_its_progress(classify, tmp_path, monkeypatch, name, shown):
    frame = pandas.DataFrame({"text": [f"review {number}" for number in range(40)]})
    (frame.to_parquet if name == "in.parquet" else frame.to_csv)(tmp_path / name, index=False)
    assert "check" not in classify("--input", tmp_path / name).stderr
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    assert shown in classify("--input", tmp_path / name).stderr


@pytest.mark.parametrize(
    ("rows", "answered", "said"),
    [
        (b'{"text":"a"}\n{"text":"b"}\nnothing\n', ["a", "b"], "line 3: not JSON"),
        (b'{"text":"a"}\n{"text":"b"}\n{"text":["c"]}\n', ["a", "b"], "line 3: expected text"),
        (b'{"id":1}\n{"id":2}\n', [1, 2], "line 1: no column is clearly"),  # known at the end
    ],
)
def test_what_came_before_an_error_in_a_stream_is_answered(work, rows, answered, said):
    command = ("scripts/classify.py", "--model", work / "full", "--input", "-")
    with piped(*command) as (process, source, answers):
        source.write(rows)
        source.close()
        assert [next(iter(json.loads(line).values())) for line in answers] == answered
        process.communicate(60)
        assert f"error: standard input, {said}" in process.errors.read_text()
    assert process.returncode == 2


def answer_to(source, answers, content):
    """Write to a command's standard input, which stays open; return its answer."""
    source.write(content)
    source.flush()
    readable, _, _ = select.select([answers], [], [], 60)
    assert readable, "no answer while standard input is open"
    return json.loads(answers.readline())


@pytest.mark.parametrize("text_key", [(), ("--text-key", "text")])
def test_the_text_may_first_come_when_rows_without_it_are_answered(stream, text_key):
    with stream(*text_key) as (source, answers):
        for row in ({"id": 1}, {"text": "good"}):
            answer = answer_to(source, answers, json.dumps(row).encode() + b"\n")
            assert (answer["label"] == "no answer") is ("id" in row)


def test_csv_has_a_column_for_every_key_of_json_lines(classify, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"label": 3, "text": "b"}\n{"text": "c", "id": 7}\n')
    assert classify("--input", source, "--output", tmp_path / "out.csv").returncode == 0
    rows = csv_rows(tmp_path / "out.csv")
    assert [(r["text"], r["input_label"], r["id"]) for r in rows] == [
        *(("a", "", ""), ("b", "3", ""), ("c", "", "7"))
    ]


def test_standard_input_is_answered_line_by_line(stream):
    with stream() as (source, answers):
        for number, text in enumerate(ODD[:3]):
            row = {"id": number, "text": text}
            answer = answer_to(source, answers, json.dumps(row).encode() + b"\n")
            assert row.items() <= answer.items()
            assert answer["label"] in ("bad", "good", "unsure")
        source.write(b'{"text": null}\n{"text": "last, without an end"}')
        source.close()
        assert [json.loads(line)["probability"] is None for line in answers] == [True, False]


def test_a_reader_that_leaves_early_is_no_error(work, tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("good\n" * 3000)
    command = ("scripts/classify.py", "--model", work / "full", "--input", many)
    with piped(*command) as (process, _, answers):
        assert answers.readline()
        answers.close()
        process.communicate(60)
        assert process.returncode == 0, process.errors.read_text()
        assert "rror" not in process.errors.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--text x --classifier {work}/other", ["another model", "transfer.py"]),
        ("--text x --threshold 7", ["threshold is 7.0", "from 0 to 1"]),
        ("--text x --unsure 0.7 0.3", ["the lower one comes first"]),
        ("--text x --precision fp8", ["--precision", "fp8", "exact", "fast", "bf16"]),
    ],
)
def test_what_does_not_fit_the_classifier_is_refused(classify, work, arguments, words):
    assert_refused(classify(*arguments.format(work=work).split()), *words)


FILES = {
    "empty.csv": b"text\n",
    "in.csv": b"text,id\ngood,1\n",
    "quoted.csv": b'text,label\nfine,1\n"So good,1\nso bad",0\nwell,0\n',
    "ids.csv": b"id\n" + b"1\n" * 100,
    "ids.jsonl": b'{"id": 1}\n' * 100,
    "late.csv": b"text,id\n" + b"good,1\n" * 999 + b"one,cell,more\n",
    "late.txt": b"good\n" * 999 + b"\xff\n",
    "late.jsonl": b'{"text": "good"}\n' * 999 + b'{"text": ["good"]}\n',
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--text x", ["bare: no classifier in it", "transfer.py"]),
        ("", ["--text or --input"]),
        ("--input none.csv", ["none.csv: no such file"]),
        ("--input in.csv ids.csv", ["unknown: ids.csv; --input takes one file at a time"]),
        ("--input in.csv --input ids.csv", ["argument --input: given twice"]),
        ("--input empty.csv --output o.csv", ["no records in it"]),
        ("--input ids.csv", ["ids.csv, line 2: no", "'id'"]),
        ("--input ids.csv --text-key text", ["ids.csv, line 2: no key 'text'", "'id'"]),
        ("--input ids.jsonl", ["ids.jsonl, line 1: no", "'id'"]),
        ("--input ids.jsonl --text-key text", ["ids.jsonl, line 1: no key 'text'", "'id'"]),
        ("--input late.csv --output o.csv", ["late.csv, line 1001: 3 cells"]),
        ("--input late.txt --output o.csv", ["late.txt, line 1000: not UTF-8"]),
        ("--input late.jsonl --output o.csv", ["late.jsonl, line 1000: expected text"]),
        ("--input quoted.csv", ["a quoted cell spans 2 lines"]),
        ("--input quoted.csv --quoting none --shard 9/9", ["the input has only 4 rows"]),
        ("--input quoted.csv --quoting standard --shard 9/9", ["the input has only 3 rows"]),
        ("--text x --output o.parquet", ["o.parquet", ".csv", "--format"]),
        ("--text x --output o.csv.gz --format csv", ["o.csv.gz: rows are not written compressed"]),
        ("--text x --output o.csv.gz", ["o.csv.gz: rows are not written compressed"]),
        ("--text x --output . --format csv", ["is a folder"]),
        ("--text x --output empty.csv/o.csv", ["is a file, not a folder"]),
        (
            "--text x --output link.csv",
            ["link.csv: is a link, and nothing is written through links"],
        ),
        ("--input - --shard 1/2", ["--shard is for the rows of an --input file"]),
        ("--input in.csv --shard 3/2", ["'3/2' is not i/n, such as 1/8 to 8/8"]),
        ("--input in.csv --shard 2/2", ["--shard 2/2: the input has only 1 rows"]),
        ("--text x --by a", ["--by is for the rows of an --input"]),
        ("--text x --text-key a", ["--text-key is for the rows of an --input"]),
        ("--input in.csv --by a", ["--by a: no such column; the input has 'text', 'id'"]),
        ("--text x --report page.pdf", ["page.pdf: the name must end in .html"]),
        (
            "--text x --output a.html --format csv --report ./a.html",
            ["a.html: is the --output, too"],
        ),
        ("--input in.csv --report in.csv/x.html", ["is a file, not a folder"]),
    ],
)
def test_refusals_before_a_model_is_loaded(classify, tmp_path, monkeypatch, arguments, words):
    """The model has no classifier, which would be another error."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere" / "x.csv")
    assert_refused(classify(*arguments.split(), model="bare"), *words)
    assert not (tmp_path / "o.csv").exists()


def test_closed_streams_are_refused(classify, monkeypatch):
    with standard_input(monkeypatch, None):
        assert_refused(classify("--input", "-"), "standard input is closed")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(InputError, match="standard output is closed; name a file with --output"):
        dispatch(["classify", "--model", "default_small", "--text", "x"])


@pytest.mark.parametrize(
    ("suffix", "rows", "fault"),
    [
        ("csv", b'{"text": "a day"}\n{"text": "bad"}\n', b"oops\n"),
        ("jsonl", b'{"id": 1}\n{"id": 2}\n', b""),  # without a text at all
    ],
)
def test_output_of_standard_input_goes_on_where_an_error_ended_it(
    classify, monkeypatch, tmp_path, caplog, suffix, rows, fault
):
    caplog.set_level(logging.INFO)
    path = tmp_path / f"out.{suffix}"
    with standard_input(monkeypatch, rows + fault):
        assert classify("--input", "-", "--output", path).returncode == 2
    for name in (path, tmp_path / f"whole.{suffix}"):
        caplog.clear()
        with standard_input(monkeypatch, rows + b'{"text": "good"}\n'):
            done(classify("--input", "-", "--output", name))
        assert ("continues after 2 rows" in caplog.text) is (name == path)
    assert path.read_text() == (tmp_path / f"whole.{suffix}").read_text()
    assert "good" in path.read_text()


def export(path, count=60):
    """Write comments with products and dates, a few of them empty."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["comment", "product", "created"])
        for n in range(count):
            text = ODD[n % len(ODD)] + (f" {n}<br />again" if n % 5 == 4 else "")
            rows.writerow([text, f"<i>{n % 3}</i>", f"2024-0{1 + n % 4}-11"])


def test_a_text_without_a_header_repeats_none(classify, tmp_path):
    (tmp_path / "in.txt").write_text("text\nN/A\n")
    for words in (("--text", "text", "--text", "N/A"), ("--input", tmp_path / "in.txt")):
        rows = json_rows(classify(*words).stdout)
        assert [row["label"] == "no answer" for row in rows] == [False, True]


def test_counts_and_report_are_those_of_all_rows_after_an_interruption(
    classify, end_after, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    export(tmp_path / "in.csv", count=130)
    words = ("--input", tmp_path / "in.csv", "--text-key", "comment", "--by", "product")
    reports = {}
    for name in ("whole", "cut"):
        outputs = ("--output", tmp_path / f"{name}.csv", "--report", tmp_path / "page.html")
        if name == "cut":
            end_after(1)
            assert classify(*words, *outputs).returncode == 130
        caplog.clear()
        assert classify(*words, *outputs).returncode == 0
        said = caplog.text[caplog.text.index("130 rows: ") :]
        reports[name] = (said, (tmp_path / "page.html").read_text())
    assert "continues after" in caplog.text
    assert reports["whole"] == reports["cut"]


@pytest.mark.parametrize(("by", "warns"), [("Product", True), ("product", False)])
def test_a_missing_column_of_groups_is_reported_at_the_end_of_standard_input(
    classify, monkeypatch, caplog, by, warns
):
    with standard_input(monkeypatch, b'{"text": "a"}\n{"text": "b", "product": 1}\n'):
        assert len(json_rows(classify("--input", "-", "--by", by).stdout)) == 2
    assert ("--by Product: no row has such a column" in caplog.text) is warns


def test_two_sides_only_if_asked_for(classify, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    words = ("--text", "I like it.", "--text", "!", "--unsure", "0", "1")
    plain, short = json_rows(classify(*words).stdout)
    assert (plain["label"], short["label"]) == ("unsure", "unfamiliar")
    assert "sides" not in plain
    caplog.clear()
    for row in json_rows(classify(*words, "--sides").stdout):
        assert row["label"] == ("good" if row["probability"] > 0.5 else "bad")
        assert row["sides"] is True
    assert "two sides only, as asked" in caplog.text


def test_neuron_is_written_only_if_asked_for(classify, work):
    plain, asked = (
        json.loads(classify("--text", "I like it.", *more).stdout) for more in ([], ["--neuron"])
    )
    (value,) = SentimentClassifier.from_pretrained(work / "full").predict_all(["I like it."]).neuron
    assert asked.pop("neuron") == pytest.approx(value, abs=1e-5)
    assert asked == plain
