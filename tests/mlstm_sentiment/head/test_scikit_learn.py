"""The classifier among scikit-learn's own tools, and both under scikit-learn's own checks."""

import pickle
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.sentiment_classifier import _named_classes
from mlstm_sentiment.reading import progress
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import LoadedModel, load_model
from tests.support.heads import regression

TEXTS = ["good", "", "An awful thing. " * 9, "ça marche", "bad\nnews", "so so"]


def as_texts(X):
    """Return rows of numbers as texts: the checks know no other input."""
    return [" ".join(map(str, row)) for row in np.asarray(X)]


def of_rows(tags):
    """Return the tags of an estimator that takes rows of numbers."""
    tags.input_tags.string = tags.input_tags.one_d_array = False
    tags.input_tags.two_d_array = True
    return tags


class ClassifierOfRows(SentimentClassifier):
    def _process(self, texts, **options):
        return super()._process(as_texts(texts), **options)

    def __sklearn_tags__(self):
        return of_rows(super().__sklearn_tags__())


class FeaturizerOfRows(SentimentFeaturizer):
    def transform(self, texts):
        return super().transform(as_texts(texts))

    def __sklearn_tags__(self):
        return of_rows(super().__sklearn_tags__())


NO_SPARSE_TEXT = "a text is never a sparse matrix"
NOT_LEARNED = "nothing is learned from labels: the classes are those that the classifier came with"
CANNOT_APPLY = {
    ClassifierOfRows: {
        "check_estimator_sparse_tag": NO_SPARSE_TEXT,
        "check_estimator_sparse_array": NO_SPARSE_TEXT,
        "check_estimator_sparse_matrix": NO_SPARSE_TEXT,
        "check_classifiers_one_label": NOT_LEARNED,
        "check_classifiers_classes": NOT_LEARNED,  # it names them one and two
        "check_classifier_not_supporting_multiclass": "its words are scikit-learn's own",
        "check_fit2d_1sample": NOT_LEARNED,
    },
    FeaturizerOfRows: {"check_estimator_sparse_tag": NO_SPARSE_TEXT},
}


@pytest.mark.parametrize("estimator", CANNOT_APPLY)
def test_the_checks_of_scikit_learn_pass(estimator, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it inherits nothing, and what the checks provoke
        checks = check_estimator(
            estimator(folder), expected_failed_checks=CANNOT_APPLY[estimator], on_skip=None
        )
    passed = [check for check in checks if check["status"] == "passed"]
    assert len(passed) >= 30
    failed = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert failed == CANNOT_APPLY[estimator].keys()


def test_it_is_a_classifier(folder):
    classifier = SentimentClassifier(folder)
    assert is_classifier(classifier)
    copy = clone(classifier).set_params(threshold=0.0)
    assert (classifier.threshold, copy.threshold) == (None, 0.0)
    check_is_fitted(classifier.fit(TEXTS))
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert set(copy.predict(TEXTS)) == {"good"}
    labels = classifier.predict(TEXTS)
    assert classifier.score(TEXTS, labels) == 1
    weights = [1, 2, 4, 8, 16, 32]  # every set of texts has a sum of its own
    right = np.average(labels == "good", weights=weights)
    assert 0 < right < 1
    assert classifier.score(TEXTS, ["good"] * 6, weights) == pytest.approx(right)
    restored = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(restored.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    with pytest.raises(ValueError, match="invalid parameter 'tanh'"):
        classifier.set_params(tanh=True)


def test_numbers_take_the_place_of_its_classes(folder):
    names, numbers = SentimentClassifier(folder).predict(TEXTS), [0, 1]
    fitted = SentimentClassifier(folder).fit(TEXTS, [1, 0, 1, 1, 0, 0])
    assert fitted.classes_.tolist() == numbers
    mixed = SentimentClassifier(folder).fit(TEXTS, pd.Series([1, 0] * 3, dtype=object))
    assert mixed.score(TEXTS, pd.Series(mixed.predict(TEXTS), dtype=object)) == 1
    np.testing.assert_array_equal(fitted.predict(TEXTS), names == "good")
    with pytest.raises(InputError, match=r"labels are neg, pos.*classes are bad, good"):
        SentimentClassifier(folder).fit(TEXTS, ["neg", "pos"] * 3)


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        (("1", "0"), [0, 1, 0], [1, 0]),
        (("1", "0"), [0.0, 1.0, 0.0], [1, 0]),
        (("1", "10", "2"), [1, 2, 10], [1, 10, 2]),
        (("1", "10", "2"), [3, 2, 10], [2, 3, 10]),  # not the names, so by position
        (("False", "True"), [True, False], [False, True]),
    ],
)
def test_numbers_that_are_the_names_of_the_classes_keep_their_order(classes, labels, expected):
    named = _named_classes(classes, labels)
    assert named.tolist() == expected
    assert named.dtype == np.array(labels).dtype


def test_a_fold_may_lack_a_class_whose_name_is_a_number(small_model, tmp_path):
    """The classes are still numbers, so that labels can be compared with predictions."""
    fitted = regression(np.ones(12, np.float32), np.zeros(1), ("0", "1"), 4, 1, "")
    loaded = LoadedModel(small_model, text_profile("openai"), tmp_path)
    classifier = SentimentClassifier(loaded, fitted).fit(TEXTS, [1] * 6)
    assert classifier.classes_.tolist() == [0, 1]
    assert classifier.score(TEXTS, classifier.predict(TEXTS)) == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["0", "1"] * 3, "y holds '0', and none of the labels in classes_: bad, good"),
        *(
            (labels, "give one label from classes_ for each text")
            for labels in ([0, 1] * 3, [["bad"]] * 6, [True] * 6, ["bad"] * 5)
        ),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(folder, labels, message):
    """It was fitted without labels, so every number would count as wrong."""
    classifier = SentimentClassifier(folder).fit(TEXTS)
    with pytest.raises(InputError, match=message):
        classifier.score(TEXTS, labels)
    with pytest.raises(InputError, match="no texts"):
        classifier.score([], [])
    assert classifier.score(TEXTS, ["0", *classifier.predict(TEXTS[1:])]) == pytest.approx(5 / 6)


MISSING = [
    ["bad", "good", None] * 2,
    ["bad", "good", float("nan")] * 2,
    [0, 1, None] * 2,
    [0.0, 1.0, float("nan")] * 2,
    [1.0, float("nan")] * 3,  # two different numbers, as there are classes
    pd.Series(["bad", "good", pd.NA] * 2, dtype="string"),
    pd.Series([0, 1, pd.NA] * 2, dtype="Int64"),
    pd.Series([0, 1, None] * 2, dtype=object),
]


@pytest.mark.parametrize("labels", MISSING)
def test_missing_labels_are_refused(folder, labels):
    for learned in (["bad", "good"] * 3, [0, 1] * 3):
        classifier = SentimentClassifier(folder).fit(TEXTS, learned)
        with pytest.raises(InputError, match="a label is missing"):
            classifier.score(TEXTS, labels)
        with pytest.raises(InputError, match="a label is missing"):
            SentimentClassifier(folder).fit(TEXTS, labels)


@pytest.mark.parametrize("weights", [[1, 1], [0] * 6, [-1] * 6, [[1]] * 6, [float("nan")] * 6])
def test_weights_that_do_not_fit_the_texts_are_refused(folder, weights):
    classifier = SentimentClassifier(folder)
    with pytest.raises(InputError, match="sample_weight: give one number for each text"):
        classifier.score(TEXTS, ["good"] * 6, sample_weight=weights)


def test_a_model_that_was_loaded_in_bf16_has_the_same_classifier(folder):
    loaded = load_model(folder, compute_dtype=torch.bfloat16)
    assert SentimentClassifier(loaded).fit().classes == ("bad", "good")


def test_threads_that_predict_first_load_once(folder):
    loads = []

    class SlowClassifier(SentimentClassifier):
        def fit(self, *data):
            loads.append(self)
            time.sleep(0.2)
            return super().fit(*data)

    classifier = SlowClassifier(folder)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: classifier.predict(TEXTS).tolist(), range(4)))
    assert len(loads) == 1
    assert all(labels == answers[0] for labels in answers)


def test_it_works_in_a_pipeline_and_can_be_calibrated(folder):
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    lowered = [text.lower() for text in TEXTS]
    middle = np.median(SentimentClassifier(folder).predict_proba(lowered)[:, 1])  # of six texts
    classifier = SentimentClassifier(folder, threshold=float(middle))
    pipeline, labels = make_pipeline(lower, classifier), classifier.predict(lowered)
    scores = cross_val_score(pipeline, TEXTS, labels, cv=2, error_score="raise")
    assert scores.tolist() == [1, 1]
    calibrated = CalibratedClassifierCV(SentimentClassifier(folder), cv=2).fit(TEXTS, labels)
    odds = SentimentClassifier(folder).decision_function(TEXTS)
    chances = calibrated.predict_proba(TEXTS)[:, 1]
    assert np.argsort(chances).tolist() == np.argsort(odds).tolist()


def test_it_has_a_useful_repr_and_shows_progress(folder, capfd, monkeypatch):
    classifier = SentimentClassifier(folder, show_progress=True)
    assert repr(classifier) == f"SentimentClassifier({str(folder)!r})"
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    classifier.predict(["good"] * 200)
    assert "classify:" in capfd.readouterr().err
    shown = repr(classifier)
    for words in ("bad, good, unit 4", "mLSTM of 12 units in 1 layer,", "exact"):
        assert words in shown
    SentimentClassifier(folder).predict(["good"] * 200)
    assert capfd.readouterr().err == ""
