"""A classifier on disk: what comes back, and what is refused."""

import json

import numpy as np
import pytest

from model.classifier import CONFIG_FILE, Classifier, load_classifier, save_classifier
from model.errors import InputError


@pytest.fixture
def saved(tmp_path):
    coefficients = np.array([2.0, -1.0, 0.0], dtype=np.float32)
    classifier = Classifier(coefficients, 0.5, ("bad", "good"), 0, 1, "digest")
    save_classifier(tmp_path / "classifier", classifier)
    return tmp_path / "classifier", classifier


def test_what_was_saved_comes_back(saved):
    folder, classifier = saved
    loaded = load_classifier(folder, hidden_size=3)
    assert (loaded.coefficients == classifier.coefficients).all()
    for name in ("intercept", "classes", "neuron", "polarity", "model_digest"):
        assert getattr(loaded, name) == getattr(classifier, name)


def test_probabilities_are_the_logistic_of_the_odds(saved):
    features = np.array([[0, 0, 9], [1, 0, 0], [0, 1, 0], [1e4, 0, 0], [0, 1e4, 0]], np.float32)
    expected = [1 / (1 + np.exp(-odds)) for odds in (0.5, 2.5, -0.5)]
    probabilities = saved[1].probabilities(features)
    assert probabilities[:3] == pytest.approx(expected, rel=1e-12)
    assert probabilities[3] == 1
    assert 0 < probabilities[4] < 1e-300


def test_a_classifier_for_another_size_is_refused(saved):
    with pytest.raises(InputError, match=r"tensor coefficients is \[3\] where .* \[4\]"):
        load_classifier(saved[0], hidden_size=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "not a description of two classes"),
        ({"neuron": None}, "not a description of two classes"),
        ({"format_version": 2}, "format_version 2 is newer"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, message):
    path = saved[0] / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        load_classifier(saved[0], hidden_size=3)


def test_no_classifier_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_classifier(tmp_path, hidden_size=3)
