"""Calling a classifier: rows of named results, as the command writes them."""

import sys

import numpy as np
import pandas
import pytest

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import TextProfile

TEXTS = ["good", "An awful thing. " * 3, "ça marche"]
NAMES = ["label", "probability", "sentiment", "unsure", "unfamiliar"]
NOTHING = dict.fromkeys(NAMES) | {"label": "no answer"}


@pytest.fixture
def classifier(folder):
    return SentimentClassifier.from_pretrained(folder, unsure=(0.0, 0.0))  # never unsure


def test_one_text_gets_one_answer(classifier):
    answer = classifier("good")
    assert list(answer) == ["text", *NAMES]
    (probability,) = classifier.predict_proba(["good"])[:, 1]
    assert answer["text"] == "good"
    assert answer["label"] == classifier.predict(["good"])[0]
    assert answer["probability"] == pytest.approx(probability, rel=1e-6)
    assert answer["sentiment"] == pytest.approx(2 * probability - 1, rel=1e-5)
    assert answer.to_frame().loc[0].to_dict() == answer


@pytest.mark.parametrize("kind", [list, tuple, np.array, pandas.Series, iter])
def test_several_texts_get_a_list(classifier, kind):
    answers = classifier(kind(TEXTS))
    assert [answer["text"] for answer in answers] == TEXTS
    assert [answer["label"] for answer in answers] == classifier.predict(TEXTS).tolist()
    assert classifier([]) == []
    assert list(classifier([]).to_frame()) == list(answers.to_frame()) == ["text", *NAMES]


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT, "", " \n", "<br>"])
def test_what_is_missing_has_missing_results(classifier, missing):
    alone, (first, second) = classifier(missing), classifier(["good", missing])
    assert first == classifier("good")
    for answer in (alone, second):
        assert {name: answer[name] for name in NAMES} == NOTHING


@pytest.mark.parametrize("sides", [False, True])
def test_a_placeholder_is_no_answer_and_a_question_makes_more(classifier, sides, monkeypatch):
    classifier.sides = sides
    classifier.fit()
    read, encode = [], TextProfile.encode
    monkeypatch.setattr(TextProfile, "encode", lambda *a: read.append(a[1]) or encode(*a))
    question, texts = "What could we improve?", ["nothing", "N/A", "None", "The lid broke."]
    table = pandas.DataFrame({question: texts, "Review": texts})
    for call, given in (
        (lambda: classifier(texts).to_frame(), [0, 3]),
        (lambda: classifier(table["Review"]).to_frame(), [0, 3]),
        (lambda: classifier(table[question]).to_frame(), [3]),
    ):
        read.clear()
        answers = call()
        assert read == [texts[place] for place in given]
        assert [n for n, label in enumerate(answers["label"]) if label != "no answer"] == given
        assert answers["probability"].notna().to_numpy().nonzero()[0].tolist() == given
    assert classifier.predict(["N/A"])[0] in ("bad", "good")  # scikit-learn's methods never abstain


@pytest.mark.parametrize(
    "value",
    [
        b"good",
        {"good": 1},
        pandas.DataFrame({"a": TEXTS}),
        [["a"]],
        [np.array(["a", "b"])],
        [np.array(["a"])],
        [pandas.Series(["a", "b"])],
    ],
)
def test_anything_else_is_refused(classifier, value):
    with pytest.raises(InputError):
        classifier(value)


def test_a_column_gets_a_frame_of_the_same_index(classifier):
    column = pandas.Series([*TEXTS, None], index=[3, 3, "a", 5])
    answers = classifier(column).to_frame()
    assert list(answers.index) == list(column.index)
    assert answers["label"].tolist()[:3] == classifier.predict(TEXTS).tolist()
    assert pandas.isna(answers["sentiment"].iloc[3])
    assert list(classifier(column[:0]).to_frame().columns) == list(answers.columns)


def test_notebooks_show_tables_in_which_texts_are_text(classifier):
    hostile = "<script>alert(1)</script> good"
    for shown in (classifier(hostile), classifier([hostile])):
        page = shown._repr_html_()
        assert "<table" in page
        assert "<script>" not in page


def test_without_pandas_a_notebook_shows_the_answers_as_python_does(classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for shown in (classifier("good"), classifier(["good"])):
        assert shown._repr_html_() is None
        with pytest.raises(InputError, match="need pandas: pip install pandas"):
            shown.to_frame()


def test_a_text_is_cleaned_and_encoded_once(classifier, monkeypatch):
    encoded, encode = [], TextProfile.encode
    monkeypatch.setattr(TextProfile, "encode", lambda *a: encoded.append(a[1]) or encode(*a))
    for ask in (classifier, classifier.predict, classifier.predict_all):
        encoded.clear()
        ask(TEXTS)
        assert encoded == TEXTS
