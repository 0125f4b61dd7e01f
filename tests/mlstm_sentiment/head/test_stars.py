"""A head that predicts stars, in the classifier that reads texts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head import Familiarity
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.head.steps import Language, Neutral, positive_log_odds
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order
from model.inference.weights import LoadedModel, load_model, model_digest, save_model
from tests.support.heads import STAR_POOLING, STAR_STATE, STAR_WEIGHTS, bag_of_ngrams, star_head
from transfer.finetuning.heads import HeadsConfig, build_heads

TEXTS = ["good", "bad\nnews", "An awful thing. " * 30, "ça marche — très bien"]
FEATURES = FeatureKind(state=STAR_STATE, pooling=STAR_POOLING)


def make(digest="digest", familiarity=None, ngrams=None, neutral=None):
    return star_head(model_digest=digest, familiarity=familiarity, ngrams=ngrams, neutral=neutral)


def logits_of(features):
    heads = build_heads(HeadsConfig(), 24, 5, seed=1).eval()
    with torch.no_grad():
        heads.heads.weight *= 30
        return heads(torch.from_numpy(features))[:, 0].double()


@pytest.fixture
def folder(small_model, tmp_path):
    """A model directory with such a head inside."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    digest = model_digest(load_model(tmp_path / "model").model)
    save_head(tmp_path / "model" / "classifier", make(digest))
    return tmp_path / "model"


def test_its_answers_about_texts(folder):
    answers = SentimentClassifier.from_pretrained(folder).predict_all(TEXTS)
    loaded, stars = load_model(folder), make()
    features = features_in_order(loaded.model, list(map(loaded.encode, TEXTS)), kind=FEATURES)
    each = logits_of(features).softmax(1).numpy()
    np.testing.assert_allclose(answers.stars, each @ [1, 2, 3, 4, 5], atol=1e-4)
    odds = 0.5 * positive_log_odds(each, STAR_WEIGHTS) + 0.25
    expected = 1 / (1 + np.exp(-odds))
    np.testing.assert_allclose(answers.probabilities[:, 1], expected, atol=1e-4)
    assert answers.choices.tolist() == (expected > 0.5).astype(int).tolist()
    assert answers.unsure.tolist() == ((expected >= 0.4) & (expected <= 0.7)).tolist()
    np.testing.assert_allclose(answers.neuron, features[:, stars.neuron], atol=1e-5)


def test_ngrams_are_those_of_the_text_as_it_is_read(folder):
    bag = bag_of_ngrams(np.random.default_rng(0).integers(-127, 128, 4096, np.int8), 0.05)
    digest = SentimentClassifier.from_pretrained(folder).fitted.model_digest
    save_head(folder / "classifier", make(digest, ngrams=bag))
    classifier = SentimentClassifier.from_pretrained(folder)
    escaped, read = classifier.decision_function(["It&#39;s good &amp; cheap", "It's good & cheap"])
    assert escaped == read


def test_a_text_that_costs_many_bits_is_familiar_if_its_letters_are(folder):
    """`limit` decides: below all log-odds every text may be foreign, above them none."""
    weights = np.random.default_rng(0).integers(-127, 128, 512, np.int8)
    digest = SentimentClassifier.from_pretrained(folder).fitted.model_digest
    strict = make(digest, familiarity=Familiarity(bits_per_character=0.0, bits=0.0))
    found = {}
    for limit in (-31.0, 31.0):
        steps = (*strict.steps[:-1], Language(weights, 0.05, limit), strict.steps[-1])
        save_head(folder / "classifier", replace(strict, steps=steps))
        found[limit] = SentimentClassifier.from_pretrained(folder).predict_all(["long texts", "x"])
    assert found[-31.0].unfamiliar.tolist() == [True, True]
    assert found[31.0].unfamiliar.tolist() == [False, True]  # one byte is too short


NEUTRAL = Neutral(2, slope=0.8, offset=0.6)


def with_neutral(folder, threshold=0.5):
    """Save a head with neutral answers in a model's folder; return its classifier."""
    stars = make(model_digest(load_model(folder).model), neutral=NEUTRAL)
    save_head(folder / "classifier", replace(stars, thresholds=(threshold,)))
    return SentimentClassifier.from_pretrained(folder)


def test_three_answers_are_the_two_sides_and_the_log_odds_of_three_stars(folder):
    before = SentimentClassifier.from_pretrained(folder).predict_all(TEXTS)
    assert before.neutral is before.is_neutral is None
    classifier = with_neutral(folder)
    after = classifier.predict_all(TEXTS)
    for name in before._fields[:-2]:  # nothing else changes
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    loaded = load_model(folder)
    features = features_in_order(loaded.model, list(map(loaded.encode, TEXTS)), kind=FEATURES)
    three = logits_of(features).softmax(1).numpy()[:, 2]
    expected = 1 / (1 + np.exp(-0.8 * np.log(three / (1 - three)) - 0.6))
    np.testing.assert_allclose(after.neutral, expected, rtol=1e-4)
    each = classifier.predict_proba(TEXTS)
    np.testing.assert_allclose(each.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(each[:, 2] / (1 - each[:, 1]), after.probabilities[:, 1], rtol=1e-9)
    assert 0 < after.is_neutral.sum() < len(TEXTS)
    names = np.array(["negative", "neutral", "positive"])
    rows = classifier(TEXTS)
    for row, name, is_unsure in zip(rows, names[each.argmax(1)], after.unsure, strict=True):
        assert row["label"] == ("unsure" if is_unsure and name != "neutral" else name)
    assert [row["neutral"] for row in rows] == pytest.approx(after.neutral.tolist(), rel=1e-6)
    assert list(rows[0])[:5] == ["text", "label", "probability", "neutral", "sentiment"]


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_scikit_learns_methods_know_three_classes_and_never_abstain(folder, threshold):
    classifier = with_neutral(folder, threshold)
    assert classifier.fit().classes_.tolist() == ["negative", "neutral", "positive"]
    assert classifier.classes == ("negative", "neutral", "positive")
    probabilities = classifier.predict_proba(TEXTS)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
    labels = classifier.predict(TEXTS)
    assert labels.tolist() == classifier.classes_[probabilities.argmax(1)].tolist()
    scores = classifier.decision_function(TEXTS)
    assert np.isfinite(scores).all()
    assert (scores.argmax(1) == probabilities.argmax(1)).all()
    assert classifier.score(TEXTS, labels) == 1
    for row, label in zip(classifier(TEXTS), labels, strict=True):
        assert row["label"] in (label, "unsure", "unfamiliar")
    sides = np.where(
        classifier.predict_all(TEXTS).probabilities[:, 1] > threshold, "positive", "negative"
    )
    is_side = labels != "neutral"
    assert (labels[is_side] == sides[is_side]).all()


def test_two_sides_only_if_asked_for(folder):
    with_neutral(folder)
    asked = SentimentClassifier.from_pretrained(folder, sides=True, unsure=(0.0, 1.0))
    assert asked.classes_.tolist() == ["negative", "positive"]
    assert asked.predict_proba(TEXTS).shape == (len(TEXTS), 2)
    assert asked.decision_function(TEXTS).shape == (len(TEXTS),)
    rows = asked([*TEXTS, "!"])
    assert [row["label"] for row in rows] == asked.predict([*TEXTS, "!"]).tolist()
    assert all(row["sides"] is True for row in rows)
    assert rows[-1]["unfamiliar"]
    labels = [0, 1] * 2
    assert asked.fit(TEXTS, labels).classes_.tolist() == [0, 1]
    with pytest.raises(InputError, match="sides=True leaves out neutral"):
        SentimentClassifier.from_pretrained(folder).fit(TEXTS, labels)
    later = SentimentClassifier.from_pretrained(folder).set_params(sides=True)
    assert later.predict_proba(TEXTS).shape == (len(TEXTS), 3)  # until the next fit


def test_html_tags_are_left_out_by_every_method(folder):
    classifier = with_neutral(folder)
    plain, tagged = ["I loved it. It works."], ["I loved it.<br /><br />It <b>works</b>."]
    for name in ("predict", "predict_proba", "decision_function"):
        ask = getattr(classifier, name)
        np.testing.assert_array_equal(ask(tagged), ask(plain))
    for one, other in zip(
        classifier.predict_all(tagged), classifier.predict_all(plain), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert {**classifier(tagged)[0], "text": ""} == {**classifier(plain)[0], "text": ""}


def test_what_costs_too_many_bits_is_unfamiliar(folder):
    classifier = SentimentClassifier.from_pretrained(folder, bits=True)
    bits = classifier.predict_all(TEXTS).bits_per_character
    limit = Familiarity(bits_per_character=float(np.sort(bits)[1:3].mean()), bits=0)
    digest = model_digest(load_model(folder).model)
    save_head(folder / "classifier", make(digest, limit))
    answers = SentimentClassifier.from_pretrained(folder).predict_all([*TEXTS, "", "?"])
    assert answers.unfamiliar[:4].tolist() == (bits > limit.bits_per_character).tolist()
    assert answers.unfamiliar[4:].all()
    lenient = replace(limit, bits=1e9)
    save_head(folder / "classifier", make(digest, lenient))
    assert (
        not SentimentClassifier.from_pretrained(folder).predict_all([*TEXTS, "ok"]).unfamiliar.any()
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_it_works_whatever_the_callers_defaults_are(small_model, tmp_path, dtype):
    loaded = LoadedModel(small_model, text_profile("openai"), tmp_path)
    fitted = replace(make(), model_digest=model_digest(small_model))
    expected = SentimentClassifier(loaded, fitted).predict_all(TEXTS)
    torch.set_default_dtype(dtype)
    try:
        answers = SentimentClassifier(loaded, fitted).predict_all(TEXTS)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(answers.probabilities, expected.probabilities)
    assert answers.neuron.base is None  # a view would keep all features
