"""A classifier on disk: what comes back, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from model.classifiers.classifier import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    Classifier,
    Familiarity,
    load_classifier,
    save_classifier,
)
from model.classifiers.influence import ranked_units
from model.errors import InputError


@pytest.fixture
def saved(tmp_path):
    coefficients = np.array([2.0, -1.0, 0.0], dtype=np.float32)
    classifier = Classifier(coefficients, 0.5, ("bad", "good"), 0, 1, "digest")
    save_classifier(tmp_path / "classifier", classifier)
    return tmp_path / "classifier", classifier


def test_what_was_saved_comes_back(saved):
    folder, classifier = saved
    description = json.loads((folder / CONFIG_FILE).read_text())
    assert description["format_version"] == 1
    assert not {"threshold", "link"} & set(description)
    loaded = load_classifier(folder, hidden_size=3)
    assert (loaded.coefficients == classifier.coefficients).all()
    for name in ("intercept", "classes", "neuron", "polarity", "model_digest"):
        assert getattr(loaded, name) == getattr(classifier, name)
    save_classifier(folder, replace(classifier, neuron=1, polarity=-1))
    other = load_classifier(folder, hidden_size=3)
    assert (other.neuron, other.polarity) == (1, -1)


def test_probabilities_are_the_logistic_of_the_odds(saved):
    features = np.array([[0, 0, 9], [1, 0, 0], [0, 1, 0], [1e4, 0, 0], [0, 1e4, 0]], np.float32)
    expected = [1 / (1 + np.exp(-odds)) for odds in (0.5, 2.5, -0.5)]
    probabilities = saved[1].probabilities(features)
    assert probabilities[:3] == pytest.approx(expected, rel=1e-12)
    assert probabilities[3] == 1
    assert 0 < probabilities[4] < 1e-300


def test_a_classifier_of_pooled_states_comes_back(tmp_path):
    coefficients = np.arange(6, dtype=np.float32)
    pooled = {"pooling": ("last", "mean"), "neuron_pooling": "mean"}
    saved = Classifier(coefficients, 0.5, ("bad", "good"), 2, 1, "digest", **pooled)
    save_classifier(tmp_path, saved)
    loaded = load_classifier(tmp_path, hidden_size=3)
    assert (loaded.pooling, loaded.neuron_pooling) == (("last", "mean"), "mean")
    assert (loaded.neuron, loaded.neuron_column) == (2, 5)
    assert loaded.kind.poolings == ("last", "mean")
    assert loaded.influence.tolist() == [[0 + 3, 1 + 4, 2 + 5]]


def test_units_are_ranked_by_their_largest_influence_on_any_class():
    influence = np.array([[0.0, -3.0, 0.5, 0.0, 1.0], [0.0, 1.0, -4.0, 0.0, 1.0]])
    assert ranked_units(influence) == [2, 1, 4]


def test_a_text_of_the_most_bits_is_familiar():
    limit = Familiarity(bits_per_character=2, bits=1)
    bits, characters = np.array([9, 9.5, 1, 1.5]), np.array([4, 4, 0, 0])
    assert limit.admits(bits, characters).tolist() == [True, False, True, False]


POOLED = {"format_version": 4, "neuron": {"index": 0, "polarity": 1, "pooling": "mean"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "not a description of two classes"),
        ({"neuron": None}, "not a description of two classes"),
        ({"format_version": 8}, "format_version 8 is newer"),
        ({"format_version": 3}, "it has 2 of them"),
        ({"format_version": 4}, "not a description of classes"),
        (
            POOLED | {"pooling": ["sum"]},
            r"pooling is \('sum',\); it must be a list, each one of last",
        ),
        (POOLED | {"pooling": "mean"}, "pooling is 'mean'; it must be a list"),
        (POOLED | {"pooling": ["last"]}, "neuron.pooling is 'mean'"),
        (POOLED | {"pooling": ["last", "mean"]}, r"coefficients is \[3\], but .* \[6\]"),
        ({"format_version": 2}, "it has 2 of them"),
        ({"classes": ["a", "a"]}, "different names"),
        ({"threshold": 1.5}, "threshold is 1.5; it must be at least zero and at most 1"),
        ({"threshold": True}, "threshold is True"),
        ({"state": "hidden"}, "state is 'hidden'; it must be cell"),
        ({"link": "probit"}, "link is 'probit'"),
        ({"neuron": {"index": 3, "polarity": 1}}, "neuron.index is 3; it must be below 3"),
        ({"neuron": {"index": float("inf"), "polarity": 1}}, "neuron.index is inf"),
        ({"neuron": {"index": 0, "polarity": 2}}, "neuron.polarity is 2; it must be one of 1, -1"),
        ({"classes": {"a": 0, "b": 1}}, "classes is .*; it must be a list, each text"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, message):
    path = saved[0] / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        load_classifier(saved[0], hidden_size=3)


@pytest.mark.parametrize("name", ["coefficients", "intercept"])
def test_weights_that_are_not_finite_are_refused(saved, name):
    tensors = load_file(saved[0] / WEIGHTS_FILE)
    tensors[name][0] = torch.inf
    save_file(tensors, saved[0] / WEIGHTS_FILE)
    with pytest.raises(InputError, match=f"{name} holds NaN or infinity"):
        load_classifier(saved[0], hidden_size=3)


def test_half_precision_is_read(saved):
    tensors = load_file(saved[0] / WEIGHTS_FILE)
    save_file(
        {name: tensor.bfloat16() for name, tensor in tensors.items()}, saved[0] / WEIGHTS_FILE
    )
    assert load_classifier(saved[0], hidden_size=3).coefficients.tolist() == [2, -1, 0]


FEATURES = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
STARS = np.clip(np.round(FEATURES[:, 1] + 3), 2, 4).astype(int)  # 2, 3 and 4


@pytest.mark.parametrize("link", ["one_vs_rest", "softmax"])
def test_more_than_two_classes_are_predicted_as_by_scikit_learn(tmp_path, link):
    if link == "softmax":
        fitted = LogisticRegression().fit(FEATURES, STARS)
        coefficients, intercept = fitted.coef_, fitted.intercept_
    else:
        fitted = OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(FEATURES, STARS)
        coefficients = np.concatenate([alone.coef_ for alone in fitted.estimators_])
        intercept = np.concatenate([alone.intercept_ for alone in fitted.estimators_])
    classes = ("2", "3", "4")
    save_classifier(
        tmp_path, Classifier(coefficients, intercept, classes, 1, 1, "digest", link=link)
    )
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["format_version"] == 2
    loaded = load_classifier(tmp_path, hidden_size=4)
    assert (loaded.classes, loaded.link) == (classes, link)
    probabilities = loaded.probabilities(FEATURES)
    np.testing.assert_allclose(probabilities, fitted.predict_proba(FEATURES), atol=1e-6)
    np.testing.assert_allclose(
        loaded.decide(FEATURES), fitted.decision_function(FEATURES), atol=1e-5
    )
    chosen = np.array(classes)[loaded.choose(probabilities)].astype(int)
    np.testing.assert_array_equal(chosen, fitted.predict(FEATURES))


def test_extreme_scores_stay_probabilities():
    for link in ("one_vs_rest", "softmax"):
        classifier = Classifier(np.eye(3), np.zeros(3), ("a", "b", "c"), 0, 1, "", link=link)
        probabilities = classifier.probabilities(np.array([[1e6, 0, -1e6]] * 2, np.float32))
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(1), 1)


def test_the_threshold_travels_and_decides(saved, tmp_path):
    _, classifier = saved
    strict = replace(classifier, threshold=0.8)
    save_classifier(tmp_path / "strict", strict)
    loaded = load_classifier(tmp_path / "strict", hidden_size=3)
    assert loaded.threshold == 0.8
    assert loaded.choose(np.array([0.4, 0.7, 0.8, 0.9])).tolist() == [0, 0, 0, 1]
    assert classifier.choose(np.array([0.4, 0.5, 0.7])).tolist() == [0, 0, 1]
