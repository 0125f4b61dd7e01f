"""A model of scikit-learn as a head: it says what the model says, wherever heads are used."""

import json

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.head_files import load_head, save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, save_model

FEATURES = np.random.default_rng(0).normal(1, 2, (90, 6)).astype(np.float32)
TWO = np.where(FEATURES[:, 0] > 1, "up", "down")
THREE = np.digitize(FEATURES[:, 1], [0, 2])
SEVERAL = (FEATURES[:, :3] > [0, 1, 2]).astype(int)
MODELS = {
    "two classes": (LogisticRegression(), TWO),
    "three classes": (LogisticRegression(), THREE),
    "three, each against the rest": (OneVsRestClassifier(LogisticRegression()), THREE),
    "two, one against the rest": (OneVsRestClassifier(LogisticRegression()), TWO),
    "several labels": (OneVsRestClassifier(LogisticRegression()), SEVERAL),
    "scaled": (make_pipeline(StandardScaler(), LogisticRegression()), TWO),
    "scaled, without a mean": (
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression()),
        THREE,
    ),
    "without an intercept": (LogisticRegression(fit_intercept=False), THREE),
    "discriminant analysis": (LinearDiscriminantAnalysis(), THREE),
}


@pytest.mark.parametrize(("model", "labels"), MODELS.values(), ids=MODELS)
def test_its_probabilities_and_choices_are_the_models(tmp_path, model, labels):
    model.fit(FEATURES, labels)
    save_head(tmp_path, Head.from_sklearn(model, model_digest="digest"))
    head = load_head(tmp_path, FEATURES.shape[1])
    assert head.model_digest == "digest"
    assert head.classes == tuple(map(str, model.classes_))
    found = head.probabilities(FEATURES)
    columns = np.column_stack([1 - found, found]) if head.is_binary else found
    np.testing.assert_allclose(columns, model.predict_proba(FEATURES), atol=1e-6)
    chosen = head.choose(found)
    named = chosen if labels.ndim == 2 else model.classes_[chosen]
    np.testing.assert_array_equal(named, model.predict(FEATURES))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(), "LinearSVC: not a fitted linear model with probabilities"),
        (GaussianNB(), "GaussianNB: not a fitted linear model"),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), "not a fitted linear model"),
        (make_pipeline(MinMaxScaler(), LogisticRegression()), "MinMaxScaler in the pipeline"),
    ],
)
def test_another_model_and_one_that_was_not_fitted_are_refused(model, message):
    with pytest.raises(InputError, match=message):
        Head.from_sklearn(model.fit(FEATURES, TWO))
    with pytest.raises(InputError, match="not a fitted linear model"):
        Head.from_sklearn(LogisticRegression())


def test_features_that_a_head_cannot_take_are_refused():
    model = LogisticRegression().fit(FEATURES, TWO)
    for kind in (FeatureKind(tanh=True), FeatureKind(layers="all"), FeatureKind(units=[1, 2])):
        with pytest.raises(InputError, match="all units of the last layer"):
            Head.from_sklearn(model, kind)
    with pytest.raises(InputError, match="features is of type str"):
        Head.from_sklearn(model, "default")
    with pytest.raises(InputError, match="3 classes are named; the model has 2"):
        Head.from_sklearn(model, classes=["a", "b", "c"])
    assert Head.from_sklearn(model, classes=["bad", "good"]).classes == ("bad", "good")
    assert Head.from_sklearn(model, classes=[0, 1]).classes == ("0", "1")
    own = [str(each) for each in model.classes_]
    assert Head.from_sklearn(model, classes=own).classes == tuple(own)
    with pytest.raises(InputError, match=f"the model has them as {', '.join(own)}: leave"):
        Head.from_sklearn(model, classes=own[::-1])


TEXTS = ["good", "fine and good", "so good", "bad", "awful, bad", "so bad"]
LABELS = ["positive"] * 3 + ["negative"] * 3


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    return tmp_path / "model"


@pytest.mark.parametrize(
    "kind", [{}, {"pooling": ["mean", "max"]}, {"layers": [0]}, {"layers": "all"}], ids=str
)
def test_a_pipeline_on_texts_becomes_a_head_that_answers_about_texts(folder, kind):
    """Of a model of one layer, which has several names."""
    featurizer = SentimentFeaturizer(str(folder), **kind)
    pipeline = make_pipeline(featurizer, StandardScaler(), LogisticRegression(C=100))
    head = Head.from_sklearn(pipeline.fit(TEXTS, LABELS))
    save_head(folder / "classifier", head)
    classifier = SentimentClassifier.from_pretrained(folder)
    texts = [*TEXTS, "what", "a long one " * 9]
    np.testing.assert_allclose(
        classifier.predict_proba(texts), pipeline.predict_proba(texts), atol=1e-5
    )
    assert classifier.predict(texts).tolist() == pipeline.predict(texts).tolist()
    other = SentimentClassifier(load_model(folder), head).fit()  # without saving it
    np.testing.assert_allclose(  # log-odds of about 10 from sums in fp32
        other.predict_proba(texts), classifier.predict_proba(texts), rtol=1e-4
    )


def test_a_featurizer_alone_and_one_of_other_features_are_refused(folder):
    featurizer = SentimentFeaturizer(str(folder)).fit()
    other = SentimentFeaturizer(str(folder), pooling=["mean", "max"]).fit()
    with pytest.raises(InputError, match="SentimentFeaturizer: not a fitted linear model"):
        Head.from_sklearn(featurizer)
    model = LogisticRegression().fit(other.transform(TEXTS), LABELS)
    size = other.transform(TEXTS).shape[1]
    with pytest.raises(InputError, match=f"on {size} features, .* returns {size // 2}; give"):
        Head.from_sklearn(model, featurizer)


@pytest.fixture
def fitted(folder):
    """A model directory with a head from scikit-learn inside, and texts in a table."""
    featurizer = SentimentFeaturizer(str(folder)).fit()
    model = LogisticRegression(C=100).fit(featurizer.transform(TEXTS), LABELS)
    save_head(folder / "classifier", Head.from_sklearn(model, featurizer))
    table = folder.parent / "texts.csv"
    table.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS))
    return folder


def test_it_works_in_every_command(fitted, tmp_path, capsys):
    model, table = ["--model", str(fitted)], str(tmp_path / "texts.csv")
    for words in (
        ["classify", "--input", table, "--output", str(tmp_path / "out.jsonl")],
        ["report", table, "--output", str(tmp_path / "report.html")],
        ["demo", "--output", str(tmp_path / "page.html")],
        ["heatmap", "--text", "so good", "--output", str(tmp_path / "map.json")],
    ):
        dispatch([*words, *model])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = SentimentClassifier.from_pretrained(fitted)(TEXTS)
    assert [row["label"] for row in rows] == [answer["label"] for answer in expected]
    assert "Clearest positive texts" in (tmp_path / "report.html").read_text()
    assert '"classes": ["negative", "positive"]' in (tmp_path / "page.html").read_text()
    unit = SentimentClassifier.from_pretrained(fitted).fitted.neuron
    assert json.loads((tmp_path / "map.json").read_text())["units"] == [unit]
