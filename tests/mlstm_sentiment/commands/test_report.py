"""report: the page of classify's answers is that of classify --report; a table is classified."""

import csv
import json
import re

import numpy as np
import pandas
import pytest

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import FOLDER, save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from tests.support.heads import regression

REVIEWS = list(synthetic_reviews(40, seed=4))


@pytest.fixture
def model(small_model, tmp_path):
    folder = tmp_path / "mine" / "model"
    save_model(folder, small_model, text_profile("openai"), {})
    give_classifier(folder, ("no", "yes"))
    return folder


def give_classifier(folder, classes):
    shape = (12,) if len(classes) == 2 else (len(classes), 12)
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    intercept = 0.0 if len(classes) == 2 else np.zeros(len(classes))
    digest = model_digest(load_model(folder).model)
    save_head(folder / FOLDER, regression(weights, intercept, classes, 4, 1, digest))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "comments.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "product", "created"])
        for n, review in enumerate(REVIEWS):
            text = "" if n == 7 else review.text + (" again<br />again" if n % 5 == 0 else "")
            rows.writerow([text, f"p{n % 3}", f"2024-0{1 + n % 4}-11"])
    return path


def report(*words):
    dispatch(["report", *map(str, words)])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_page_of_answers_is_that_of_the_texts(model, table, tmp_path, suffix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, again = tmp_path / "whole.html", tmp_path / "again.html"
    written = tmp_path / f"labelled.{suffix.replace('parquet', 'csv')}"
    options = ["--model", str(model), "--by", "product"]
    files = ["--input", str(table), "--output", str(written), "--report", str(whole)]
    dispatch(["classify", *options, *files])
    if suffix == "parquet":
        answers = pandas.read_csv(written)
        answers.to_parquet(written := tmp_path / "labelled.parquet")
    report(written, *options, "--output", again)
    own = 'class="about">.*?</p>'
    if suffix != "csv":  # in which a row has another place
        own += r'|id="data">.*?<|<footer>\w+ \d+'
    pages = [re.sub(own, "", page.read_text()) for page in (again, whole)]
    assert pages[0].replace(written.name, table.name) == pages[1]
    assert "40 rows, text column" in again.read_text()
    assert "comments.csv: comma, UTF-8, 40 rows, text column" in whole.read_text()
    assert "with the model mine." in whole.read_text()
    report(table, *options)
    assert (tmp_path / "report.html").read_text() == whole.read_text()


def test_the_answers_are_those_of_the_file(model, table, tmp_path):
    """They are not computed again: a person may have corrected some."""
    written = tmp_path / "labelled.jsonl"
    dispatch(["classify", "--model", str(model), "--input", str(table), "--output", str(written)])
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    for row in rows:
        if row["label"] != "no answer":
            row |= {"label": "yes", "probability": 0.9, "unsure": True}
    written.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report(written, "--model", model, "--output", tmp_path / "page.html")
    assert "100&nbsp;% yes." in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("more", [["--sides"], []])
def test_answers_of_two_sides_are_reported_as_such(model, tmp_path, more):
    """A column of the input may be named sides."""
    (tmp_path / "t.csv").write_text("text,sides\ngood,left\nbad,right\n")
    written, page = tmp_path / "answers.csv", tmp_path / "page.html"
    words = ["classify", "--model", str(model), "--input", str(tmp_path / "t.csv"), *more]
    dispatch([*words, "--unsure", "0", "1", "--output", str(written)])
    report(written, "--model", model, "--output", page)
    assert ("Two sides only, as asked" in page.read_text()) is bool(more)
    assert ("<h2>Unsure: " in page.read_text()) is (not more)


ROW = {
    **{"text": "a", "label": "yes", "probability": "0.9", "unsure": "TRUE", "unfamiliar": "false"},
    "bits_per_character": "1.5",
}


def written(folder, row):
    """Write a table of one row."""
    with open(folder / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([row, row.values()])
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": "good"}, "line 2: label is 'good'; the answers are no, yes, unsure, .* --model"),
        (
            {"label": "neutral"},
            "'neutral'; the answers are no, yes, unsure, .*name that with --mod",
        ),
        ({"label": "unsre"}, "the answers are no, .*no answer; did you mean 'unsure'.$"),
        ({"probability": "0,9"}, "line 2: probability is '0,9', which classify never writes"),
        ({"probability": "90"}, "line 2: probability is 90.0, which classify never writes"),
        ({"probability": "-0.1"}, r"line 2: probability is -0\.1, which classify never writes"),
        ({"probability": "TRUE"}, "line 2: probability is 'TRUE', which classify never writes"),
        ({"probability": ""}, "line 2: has a label but no probability"),
    ],
)
def test_answers_that_classify_never_writes_are_refused(model, tmp_path, change, said):
    page = tmp_path / "page.html"
    with pytest.raises(InputError, match=said):
        report(written(tmp_path, ROW | change), "--model", model, "--output", page)
    assert not page.exists()


@pytest.mark.parametrize(("label", "said"), [
    ("Yes ", "100&nbsp;% yes."), ("Unsure", "<h2>Unsure: 1</h2>"),
])  # fmt: skip
@pytest.mark.parametrize("unsure", ["TRUE", "false", ""])
@pytest.mark.parametrize("unfamiliar", ["true", ""])
def test_the_label_alone_is_the_answer(model, tmp_path, label, said, unsure, unfamiliar):
    row = ROW | {"label": label, "unsure": unsure, "unfamiliar": unfamiliar}
    report(written(tmp_path, row), "--model", model, "--output", tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()


def tables_by(column, header, rows, model, folder):
    """Write the rows; return the answers of classify, and two tables by a column.

    One is of classify's own page, the other of report's about the answers.
    """
    (folder / "t.csv").write_text("".join([header, *rows]))
    written, pages = folder / "answers.csv", [folder / "a.html", folder / "b.html"]
    words = ["--model", str(model), "--by", column]
    both = ["--output", str(written), "--report", str(pages[0])]
    dispatch(["classify", *words, "--input", str(folder / "t.csv"), *both])
    report(written, *words, "--output", pages[1])
    return written, *map(table_of, pages)


def table_of(page):
    return re.search("<table.*?</table>", page.read_text(), re.DOTALL)[0]


def test_a_column_that_has_an_answers_name_is_grouped_by_as_in_classify(model, tmp_path):
    rows = [f"text {n},{'ab'[n % 2]}\n" for n in range(12)]
    written, first, second = tables_by("sentiment", "text,sentiment\n", rows, model, tmp_path)
    page = tmp_path / "c.html"
    report(written, "--model", model, "--by", "input_sentiment", "--output", page)
    assert first == second == table_of(page)


def test_a_column_of_ones_own_is_grouped_by_whatever_else_is_there(model, tmp_path):
    """`input_` before a name means a renamed column only where the name is an answer's."""
    rows = [f"text {n},{'ab'[n % 2]},{'xyz'[n % 3]}\n" for n in range(12)]
    _, first, second = tables_by("store", "text,store,input_store\n", rows, model, tmp_path)
    assert first == second


def test_refusals(model, table, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.html"):
        report(table, "--output", "page.pdf")
    with pytest.raises(InputError, match="--by nothing: no such column"):
        report(table, "--by", "nothing", "--output", tmp_path / "p.html")
    with pytest.raises(InputError, match="classify --input - --report"):
        report("-")
    give_classifier(model, ("bad", "good", "so so"))
    with pytest.raises(InputError, match="two classes; this classifier has 3"):
        report(table, "--model", model, "--output", tmp_path / "p.html")
