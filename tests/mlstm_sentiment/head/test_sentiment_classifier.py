"""The classifier in Python: its answers about texts, and its errors."""

import pickle
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
import pytest

from mlstm_sentiment import Engine, SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.engine import features
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.head_files import find_classifier, save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import read
from model.inference.weights import load_model, save_model
from tests.mlstm_sentiment.head.conftest import TEXTS, fitted
from tests.support.heads import regression


def test_two_classes(folder):
    classifier = SentimentClassifier.from_pretrained(folder)
    features = SentimentFeaturizer.from_pretrained(folder).transform(TEXTS)
    own = fitted(folder)
    affine = own.steps[0]
    odds = features.astype(np.float64) @ affine.weight[0] + affine.bias[0]
    np.testing.assert_allclose(classifier.decision_function(TEXTS), odds, atol=1e-5)
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (5, 2)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-odds)), atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(TEXTS)), probabilities)
    labels = classifier.predict(TEXTS)
    assert labels.tolist() == ["good" if p > 0.5 else "bad" for p in probabilities[:, 1]]
    assert set(labels) == {"bad", "good"}
    np.testing.assert_allclose(classifier.predict_all(TEXTS).neuron, features[:, 4], atol=1e-6)


def test_more_classes(folder, tmp_path):
    of_three = fitted(folder, ("1", "2", "3"))
    save_head(tmp_path / "stars" / "classifier", of_three)
    classifier = SentimentClassifier.from_pretrained(folder, tmp_path / "stars")
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (5, 3)
    labels = classifier.predict(TEXTS)
    assert labels.tolist() == [classifier.classes[i] for i in probabilities.argmax(1)]
    with pytest.raises(InputError, match=r"3 classes.*leave threshold out"):
        SentimentClassifier.from_pretrained(folder, tmp_path / "stars", threshold=0.3)
    with pytest.raises(InputError, match=r"3 classes.*leave unsure out"):
        SentimentClassifier.from_pretrained(folder, tmp_path / "stars", unsure=(0.3, 0.7))
    assert classifier.predict_all(TEXTS).unsure is None


def test_a_given_threshold_replaces_the_classifiers_own(folder, tmp_path):
    save_head(tmp_path / "strict", fitted(folder).with_threshold(1.0))
    own = SentimentClassifier.from_pretrained(folder, tmp_path / "strict")
    assert set(own.predict(TEXTS)) == {"bad"}
    lenient = SentimentClassifier.from_pretrained(folder, tmp_path / "strict", threshold=0)
    assert set(lenient.predict(TEXTS)) == {"good"}
    moved = SentimentClassifier.from_pretrained(folder, threshold=0.95)
    assert moved.unsure_ == pytest.approx((38 / 41, 57 / 59))
    with pytest.raises(InputError, match="threshold is 2"):
        SentimentClassifier.from_pretrained(folder, threshold=2)


class Watched(Head):
    """Records how many texts each call got the features of."""

    sizes: ClassVar[list[int]] = []

    def answer(self, features, texts=None):
        self.sizes.append(len(features))
        return super().answer(features, texts)


def assert_same(result, expected):
    """The features are the same, bit for bit; the head's sums, in fp64, have another order."""
    if getattr(result, "dtype", None) == np.float64:
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-15)
    else:
        np.testing.assert_array_equal(result, expected)


METHODS = ("predict", "predict_proba", "decision_function")


def test_features_of_all_texts_are_never_in_memory_together(folder, monkeypatch):
    watched = Watched(**{f.name: getattr(fitted(folder), f.name) for f in fields(Head)})
    classifier = SentimentClassifier.from_pretrained(folder, watched)
    watched.sizes.clear()
    whole = [getattr(classifier, name)(TEXTS) for name in METHODS]
    verdicts = classifier.predict_all(TEXTS)
    assert set(watched.sizes) == {len(TEXTS)}
    watched.sizes.clear()
    monkeypatch.setattr(features, "NUMBERS_AT_ONCE", 2 * 12)  # of two texts
    for name, expected in zip(METHODS, whole, strict=True):
        assert_same(getattr(classifier, name)(TEXTS), expected)
    for array, expected in zip(classifier.predict_all(TEXTS), verdicts, strict=True):
        assert_same(array, expected)
    assert set(watched.sizes) == {2, 1}
    assert classifier.predict([]).shape == (0,)


def test_a_precision_changes_probabilities_a_little(folder):
    loaded = load_model(folder)
    save_model(folder, loaded.model, loaded.profile, {}, quantized=True)
    head = replace(fitted(folder), model_digest="")
    exact = SentimentClassifier.from_pretrained(folder, head).predict_proba(TEXTS)
    fast = SentimentClassifier.from_pretrained(folder, head, precision="fast")
    probabilities = fast.predict_proba(TEXTS)
    assert 0 < np.abs(probabilities - exact).max() < 0.05
    again = pickle.loads(pickle.dumps(fast))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), probabilities)
    alone = [fast.predict_proba([text])[0] for text in TEXTS]
    assert_same(np.array(alone), probabilities)
    with pytest.raises(InputError, match="precision exact: the model that is given has fast"):
        SentimentClassifier(fast.loaded, head, precision="exact").fit()
    with pytest.raises(InputError, match="precision is 'bf16'; known: exact, fast"):
        SentimentClassifier.from_pretrained(folder, precision="bf16")


def test_a_model_in_torch_gives_the_same_answers(folder):
    """The engine computes models of floats in fp32: what differs is the order of sums."""
    expected = SentimentClassifier(load_model(folder), bits=True).predict_all(TEXTS)
    result = SentimentClassifier(Engine.load(folder), bits=True).predict_all(TEXTS)
    np.testing.assert_allclose(result.probabilities, expected.probabilities, rtol=1e-5)
    np.testing.assert_allclose(result.bits_per_character, expected.bits_per_character, rtol=1e-5)
    assert result.choices.tolist() == expected.choices.tolist()


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "decision_function", "predict_all"])
def test_a_single_string_is_not_taken_for_its_letters(folder, ask):
    with pytest.raises(InputError, match=r"got a single string; write \[text\]"):
        getattr(SentimentClassifier.from_pretrained(folder), ask)("good")


def test_a_callers_progress_bar_counts_every_byte(folder):
    counts = []
    classifier = SentimentClassifier.from_pretrained(folder)
    classifier.predict_all(TEXTS, counts.append)
    assert sum(counts) == sum(len(classifier.loaded.encode(text)) for text in TEXTS)


def test_parameters_that_are_set_later_take_effect_at_the_next_fit(folder):
    classifier = SentimentClassifier(folder).fit()
    exact = classifier.predict_proba(TEXTS)
    classifier.set_params(threshold=0.99, bits=True)
    np.testing.assert_array_equal(classifier.predict_proba(TEXTS), exact)
    assert classifier.fitted.threshold != 0.99
    assert "bits_per_character" not in classifier("good")
    assert classifier.fit().fitted.threshold == 0.99
    assert "bits_per_character" in classifier("good")


def test_a_text_between_two_thresholds_is_unsure(folder):
    probabilities = SentimentClassifier.from_pretrained(folder).predict_proba(TEXTS)[:, 1]
    low, high = sorted(probabilities)[1] - 1e-4, sorted(probabilities)[3] + 1e-4
    answers = SentimentClassifier.from_pretrained(folder, unsure=(low, high)).predict_all(TEXTS)
    assert answers.unsure.tolist() == [low <= p <= high for p in answers.probabilities[:, 1]]
    assert answers.unsure.sum() == 3
    nobody = SentimentClassifier.from_pretrained(folder, unsure=(0.0, 0.0)).predict_all(TEXTS)
    assert not nobody.unsure.any()
    with pytest.raises(InputError, match="the lower one comes first"):
        SentimentClassifier.from_pretrained(folder, unsure=(0.7, 0.3))
    with pytest.raises(InputError, match="it must be two numbers"):
        SentimentClassifier.from_pretrained(folder, unsure=0.5)


def test_bits_per_character_are_those_of_predicting_the_text(folder):
    loaded = load_model(folder)
    answers = SentimentClassifier.from_pretrained(folder, bits=True).predict_all(TEXTS)
    sequences = list(map(loaded.encode, TEXTS))
    costs = read(loaded.model, sequences, bits=True, batch_size=3).token_bits
    expected = [cost.mean() if len(cost) else np.nan for cost in costs]
    np.testing.assert_allclose(answers.bits_per_character, expected, rtol=1e-5)
    # Nobody has measured what is familiar to this model; what is too short is known.
    assert answers.unfamiliar.tolist() == [None if text else True for text in TEXTS]
    unasked = SentimentClassifier.from_pretrained(folder)
    assert unasked.predict_all(TEXTS).bits_per_character is None
    assert "bits_per_character" not in unasked("good")


@pytest.mark.parametrize("units", [12, 13])
def test_a_classifier_of_another_model_is_refused(folder, tmp_path, units):
    """Whether or not it is of the same size."""
    other = regression(np.zeros(units), classes=fitted(folder).classes, digest="0" * 64)
    save_head(tmp_path / "other", other)
    with pytest.raises(InputError, match=r"other: was fitted on another model.*transfer\.py"):
        SentimentClassifier.from_pretrained(folder, tmp_path / "other")
    with pytest.raises(InputError, match=r"^classifier: was fitted on another model.*name that"):
        SentimentClassifier.from_pretrained(folder, replace(fitted(folder), model_digest="0" * 64))


def test_a_word_is_no_flag_and_a_model_has_its_own_threads(folder):
    for options, said in (
        ({"sides": "no"}, "sides is 'no'; True or False"),
        ({"bits": 1}, "bits is 1; True or False"),
        ({"threads": 4}, "threads 4: the model that is given has its own"),
    ):
        with pytest.raises(InputError, match=said):
            SentimentClassifier(Engine.load(folder), **options).fit()
    assert SentimentClassifier(Engine.load(folder, threads=2)).fit().loaded.threads == 2


@pytest.mark.parametrize("classifier", [5, SentimentClassifier()])
def test_what_is_no_classifier_is_refused(folder, classifier):
    message = f"classifier is of type {type(classifier).__name__}; give the folder of one"
    with pytest.raises(InputError, match=message):
        SentimentClassifier.from_pretrained(folder, classifier)


def test_a_runs_own_transfer_is_found(small_model, folder, tmp_path):
    save_model(tmp_path / "run" / "model", small_model, text_profile("openai"), {})
    strict = fitted(folder).with_threshold(1.0)
    save_head(tmp_path / "run" / "transfer" / "classifier", strict)
    own = SentimentClassifier.from_pretrained(tmp_path / "run")
    assert own.fitted.threshold == 1.0
    named = SentimentClassifier.from_pretrained(folder, tmp_path / "run")
    assert named.fitted.threshold == 1.0
    with pytest.raises(InputError, match=r"transfer': holds a classifier; .*--classifier"):
        load_model(tmp_path / "run" / "transfer")
    save_head(tmp_path / "run" / "model" / "classifier", fitted(folder))
    nearer = SentimentClassifier.from_pretrained(tmp_path / "run")
    assert nearer.fitted.threshold == 0.5


def test_a_transfer_inside_a_model_directory_is_found_and_no_siblings(small_model, tmp_path):
    save_model(tmp_path / "imported", small_model, text_profile("openai"), {})
    loaded = load_model(tmp_path / "imported")
    save_head(tmp_path / "transfer" / "classifier", fitted(loaded.folder))
    assert find_classifier(loaded) is None
    save_head(loaded.folder / "transfer" / "classifier", fitted(loaded.folder))
    assert find_classifier(loaded) == loaded.folder / "transfer" / "classifier"


@pytest.mark.parametrize(
    ("classifier", "way"), [(None, r"transfer\.py"), ("nowhere", "name the folder of one")]
)
def test_no_classifier_is_refused_with_the_way_to_one(small_model, tmp_path, classifier, way):
    save_model(tmp_path / "bare", small_model, text_profile("openai"), {})
    with pytest.raises(InputError, match=f"no classifier in it.*{way}"):
        SentimentClassifier.from_pretrained(tmp_path / "bare", classifier)
