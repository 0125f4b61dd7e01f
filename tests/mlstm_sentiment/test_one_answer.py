"""One text, one answer: the same word in every way that we give it."""

import csv
import html
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pandas
import pytest

from mlstm_sentiment import SentimentClassifier, Sink, Source, classify
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.demo.page import demo_page
from mlstm_sentiment.head.answers import NO_ANSWER
from mlstm_sentiment.head.head_files import needed_classifier
from mlstm_sentiment.server.answers import rows_of_texts
from mlstm_sentiment.units.unit_traces import _verdicts_of
from model.inference.weights import load_model
from tests.support.texts import texts_of_many_kinds

MODEL = "default_small"
WORKER = Path(__file__).parent / "demo" / "worker.mjs"
NODE = shutil.which("node")
TEXTS = texts_of_many_kinds()


@pytest.fixture(scope="module")
def classifier():
    return SentimentClassifier.from_pretrained(MODEL)


@pytest.fixture(scope="module")
def words(classifier):
    """What a call answers."""
    return [answer["label"] for answer in classifier(TEXTS)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_each_word_is_given(words):
    assert set(words) == {*("positive", "neutral", "negative", "unsure", "unfamiliar", NO_ANSWER)}


def test_a_frame(classifier, words):
    assert classifier(pandas.Series(TEXTS)).to_frame()["label"].tolist() == words


def test_a_question_makes_nothing_no_answer_in_every_way(classifier, tmp_path):
    question = "What could we improve?"
    texts = ["nothing", "N/A", "None", "Broken, a waste of money."]
    expected = [NO_ANSWER] * 3 + ["negative"]
    table = pandas.DataFrame({question: texts})
    assert [answer["label"] for answer in classifier(table[question])] == expected
    for suffix in ("csv", "xlsx", "jsonl"):
        path, page = tmp_path / f"in.{suffix}", tmp_path / f"{suffix}.html"
        if suffix == "jsonl":
            table.to_json(path, orient="records", lines=True)
        else:
            getattr(table, {"csv": "to_csv", "xlsx": "to_excel"}[suffix])(path, index=False)
        rows = classify(Source(path, question), classifier, Sink(tmp_path / f"{suffix}.out.csv"))
        assert [row["label"] for row in rows] == expected
        words = ["--model", MODEL, "--text-key", question, "--output", str(page)]
        for table_or_answers in (path, tmp_path / f"{suffix}.out.csv"):
            dispatch(["report", str(table_or_answers), *words])
            assert "<h2>No answer: 3</h2>" in page.read_text()


def test_the_command_its_summary_and_its_report(words, table, tmp_path, caplog):
    caplog.set_level("INFO")
    outputs = [tmp_path / "out.csv", tmp_path / "out.jsonl"]
    page, later = tmp_path / "report.html", tmp_path / "later.html"
    for output in outputs:
        dispatch(["classify", "--model", MODEL, "--input", str(table), "--output", str(output),
                  "--report", str(page)])  # fmt: skip
    with outputs[0].open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == words
    rows = list(map(json.loads, outputs[1].read_text().splitlines()))
    assert [row["label"] for row in rows] == words
    dispatch(["report", str(outputs[0]), "--model", MODEL, "--output", str(later)])
    for word, count in Counter(words).items():
        assert f" {count} {word}" in caplog.text
        for path in (page, later):
            cells = re.findall(rf"{word}(?: \(set apart\))?</td><td[^>]*>(\d+)", path.read_text())
            assert cells == [str(count)]


def test_the_server(classifier, words):
    rows = rows_of_texts(classifier, 10_000, TEXTS, sides=False)
    assert [row["label"] for row in rows] == words


def test_the_heatmap(words):
    loaded = load_model(MODEL)
    verdicts = _verdicts_of(loaded, needed_classifier(loaded), TEXTS)
    found = [re.match(r"classifier: ([a-z ]+?)(?: \(|$|:)", each)[1] for each in verdicts]
    assert found == words


def test_scikit_learns_methods_where_they_know_the_word(classifier, words):
    labels = classifier.predict(TEXTS)
    assert (
        labels.tolist() == classifier.classes_[classifier.predict_proba(TEXTS).argmax(1)].tolist()
    )
    for label, word in zip(labels, words, strict=True):
        assert word in (label, "unsure", "unfamiliar", NO_ANSWER)


@pytest.mark.skipif(NODE is None, reason="needs node, to run the page's programs")
def test_the_page(words, tmp_path):
    loaded = load_model(MODEL)
    head = needed_classifier(loaded)
    path = tmp_path / "page.html"
    path.write_text(demo_page(loaded, head, "Title"), encoding="utf-8")
    orders = []
    for text in TEXTS:
        references = {each: html.unescape(each) for each in re.findall(r"&\w+;", text)}
        orders.append({"order": "word", "text": text, "references": references})
    process = subprocess.run(
        [NODE, WORKER, path], input=json.dumps(orders), capture_output=True, text=True, timeout=100
    )
    assert process.returncode == 0, process.stderr
    answers = json.loads(process.stdout)
    assert [answer["word"] for answer in answers] == words
    assert [answer["shown"] for answer in answers] == TEXTS  # tags are shown, and not read
