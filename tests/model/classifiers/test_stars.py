"""A head that predicts stars: its answers, saving and loading, and its errors."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from model import SentimentClassifier, save_model
from model.bounds import fill
from model.classifiers.classifier import CONFIG_FILE, Familiarity
from model.classifiers.heads import HeadsConfig, build_heads
from model.classifiers.ngrams import BagOfNgrams
from model.classifiers.stars import (
    FEATURES,
    Calibration,
    StarsClassifier,
    load_stars,
    positive_log_odds,
    save_stars,
)
from model.errors import InputError
from model.files.weights import LoadedModel, load_model, model_digest
from model.inference.features import features_in_order
from model.text.profiles import text_profile

TEXTS = ["good", "bad\nnews", "An awful thing. " * 30, "ça marche — très bien"]


def make(digest="digest", familiarity=None, ngrams=None, neutral=None):
    heads = build_heads(HeadsConfig(), 24, 5, seed=1).eval()
    with torch.no_grad():
        heads.heads.weight *= 30  # so that texts differ
    return StarsClassifier(
        heads=heads,
        classes=("negative", "positive"),
        model_digest=digest,
        calibration=Calibration(slope=0.5, offset=0.25),
        familiarity=familiarity,
        unsure=(0.4, 0.7),
        ngrams=ngrams,
        neutral=neutral,
    )


@pytest.fixture
def folder(small_model, tmp_path):
    """A model directory with such a head inside."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    digest = model_digest(load_model(tmp_path / "model").model)
    save_stars(tmp_path / "model" / "classifier", make(digest))
    return tmp_path / "model"


def test_three_stars_are_neutral_and_the_others_symmetric():
    sure = np.eye(5)
    odds = positive_log_odds(sure)
    assert odds[2] == 0
    assert (odds[:2] < -10).all()
    np.testing.assert_allclose(odds, -odds[::-1])
    mixed = positive_log_odds(np.array([[0.1, 0.1, 0.2, 0.3, 0.3]]))
    np.testing.assert_allclose(mixed, np.log(0.7 / 0.3))


def test_its_answers_about_texts(folder):
    answers = SentimentClassifier.from_pretrained(folder, batch_size=2).predict_all(TEXTS)
    loaded, stars = load_model(folder), make()
    features = features_in_order(loaded.model, list(map(loaded.tokens, TEXTS)), kind=FEATURES)
    logits = stars.heads(torch.from_numpy(features))[:, 0].detach().double()
    each = logits.softmax(1).numpy()
    np.testing.assert_allclose(answers.stars, each @ [1, 2, 3, 4, 5], atol=1e-4)
    odds = 0.5 * positive_log_odds(each) + 0.25
    expected = 1 / (1 + np.exp(-odds))
    np.testing.assert_allclose(answers.probabilities[:, 1], expected, atol=1e-4)
    assert answers.choices.tolist() == (expected > 0.5).astype(int).tolist()
    assert answers.unsure.tolist() == ((expected >= 0.4) & (expected <= 0.7)).tolist()
    np.testing.assert_allclose(answers.neuron, features[:, stars.neuron], atol=1e-5)


def test_its_range_of_doubt_moves_with_a_threshold_that_is_given(folder):
    for threshold, expected in ((0.5, (0.4, 0.7)), (0.75, (0.65, 0.95)), (0.0, (0.0, 0.2))):
        moved = SentimentClassifier.from_pretrained(folder, threshold=threshold)
        assert moved.unsure_ == pytest.approx(expected)
    stars = make(model_digest(load_model(folder).model))
    save_stars(folder / "classifier", replace(stars, threshold=0.8))  # with a range of its own
    assert SentimentClassifier.from_pretrained(folder).unsure_ == (0.4, 0.7)


def test_ngrams_move_the_log_odds_of_five_stars_to_one(folder):
    weights = np.random.default_rng(0).integers(-127, 128, 64, np.int8)
    bag = BagOfNgrams(weights, 0.01)
    plain = SentimentClassifier.from_pretrained(folder)
    states = features_in_order(
        plain.loaded.model, list(map(plain.loaded.tokens, TEXTS)), kind=FEATURES
    )
    before = plain.fitted.of_each_star(states)
    save_stars(folder / "classifier", make(plain.fitted.model_digest, ngrams=bag))
    with_bag = SentimentClassifier.from_pretrained(folder)
    answers = with_bag.predict_all(TEXTS)
    moved = bag.log_odds(TEXTS)
    assert (moved != 0).all()
    after = before * np.exp(np.outer(moved, [-0.5, -0.5, 0, 0.5, 0.5]))
    after /= after.sum(1, keepdims=True)
    np.testing.assert_allclose(answers.stars, after @ [1, 2, 3, 4, 5], atol=1e-4)
    odds = 0.5 * positive_log_odds(after) + 0.25
    np.testing.assert_allclose(answers.probabilities[:, 1], 1 / (1 + np.exp(-odds)), atol=1e-4)
    np.testing.assert_allclose(with_bag.decision_function(TEXTS), odds, atol=1e-3)
    np.testing.assert_allclose(answers.neuron, states[:, make().neuron], atol=1e-5)


def test_ngrams_are_those_of_the_text_as_it_is_read(folder):
    bag = BagOfNgrams(np.random.default_rng(0).integers(-127, 128, 4096, np.int8), 0.05)
    digest = SentimentClassifier.from_pretrained(folder).fitted.model_digest
    save_stars(folder / "classifier", make(digest, ngrams=bag))
    classifier = SentimentClassifier.from_pretrained(folder)
    escaped, read = classifier.decision_function(["It&#39;s good &amp; cheap", "It's good & cheap"])
    assert escaped == read


def test_a_description_names_ngrams_only_where_there_are_any(folder):
    path = folder / "classifier" / CONFIG_FILE
    description = json.loads(path.read_text())
    assert description["format_version"] == 5
    assert "ngrams" not in description
    save_stars(path.parent, make(ngrams=BagOfNgrams(np.ones(8, np.int8), 0.5)))
    description = json.loads(path.read_text())
    assert description["format_version"] == 6
    assert load_stars(path.parent, 12).ngrams.scale == 0.5
    for damaged in ({"buckets": 8}, None, "many"):
        path.write_text(json.dumps(description | {"ngrams": damaged}))
        with pytest.raises(InputError, match="not a description of a head that predicts"):
            load_stars(path.parent, 12)
    save_stars(path.parent, make())
    assert not (path.parent / "ngrams.safetensors").exists()


NEUTRAL = Calibration(slope=0.8, offset=0.6)


def with_neutral(folder, threshold=0.5):
    """Save a head with neutral answers in a model's folder; return its classifier."""
    stars = make(model_digest(load_model(folder).model), neutral=NEUTRAL)
    save_stars(folder / "classifier", replace(stars, threshold=threshold))
    return SentimentClassifier.from_pretrained(folder)


def test_three_answers_are_the_two_sides_and_the_log_odds_of_three_stars(folder):
    before = SentimentClassifier.from_pretrained(folder).predict_all(TEXTS)
    assert before.neutral is before.three_probabilities is before.is_neutral is None
    classifier = with_neutral(folder)
    after = classifier.predict_all(TEXTS)
    for name in before._fields[:-1]:  # nothing else changes
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    features = np.concatenate(list(classifier._features(TEXTS)))
    three = classifier.fitted.of_each_star(features)[:, 2]
    expected = 1 / (1 + np.exp(-0.8 * np.log(three / (1 - three)) - 0.6))
    np.testing.assert_allclose(after.neutral, expected, rtol=1e-9)
    each = after.three_probabilities
    np.testing.assert_allclose(each.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(each[:, 2] / (1 - each[:, 1]), after.probabilities[:, 1], rtol=1e-9)
    assert 0 < after.is_neutral.sum() < len(TEXTS)
    names = np.array(["negative", "neutral", "positive"])
    rows = classifier(TEXTS)
    assert [row["label"] for row in rows] == names[each.argmax(1)].tolist()
    assert [row["neutral"] for row in rows] == pytest.approx(after.neutral.tolist(), rel=1e-6)
    assert list(rows[0])[:5] == ["text", "label", "probability", "neutral", "sentiment"]
    assert classifier.classes_.tolist() == ["negative", "positive"]  # scikit-learn's methods
    assert classifier.predict_proba(TEXTS).shape == (len(TEXTS), 2)
    assert set(classifier.predict(TEXTS)) <= set(classifier.classes_)


def test_a_threshold_decides_between_the_two_sides_of_what_is_not_neutral(folder):
    is_neutral = with_neutral(folder).predict_all(TEXTS).is_neutral
    for threshold, side in ((0.0, "positive"), (1.0, "negative")):
        labels = [row["label"] for row in with_neutral(folder, threshold)(TEXTS)]
        assert labels == np.where(is_neutral, "neutral", side).tolist()


@pytest.mark.parametrize("bag", [None, BagOfNgrams(np.ones(8, np.int8), 0.5)])
def test_neutral_answers_have_a_format_of_their_own(tmp_path, bag):
    save_stars(tmp_path, make(ngrams=bag, neutral=NEUTRAL))
    description = json.loads((tmp_path / CONFIG_FILE).read_text())
    assert description["format_version"] == 7
    loaded = load_stars(tmp_path, 12)
    assert loaded.neutral == NEUTRAL
    assert (loaded.ngrams is None) == (bag is None)
    for change, message in (
        ({"format_version": 8}, "format_version 8 is newer"),
        ({"neutral": {"slope": -1.0}}, "slope is -1"),
        ({"neutral": "often"}, "not a description of a head that predicts"),
    ):
        (tmp_path / CONFIG_FILE).write_text(json.dumps(description | change))
        with pytest.raises(InputError, match=message):
            load_stars(tmp_path, 12)
    save_stars(tmp_path, make(ngrams=bag))
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["format_version"] == (6 if bag else 5)
    assert load_stars(tmp_path, 12).neutral is None


def test_features_without_the_log_odds_of_ngrams_are_refused():
    stars = make(ngrams=BagOfNgrams(np.ones(8, np.int8), 0.5))
    stars.decide(np.zeros((1, 25), np.float32))
    with pytest.raises(
        InputError, match="24 features; the head takes 24 and the log-odds of n-grams"
    ):
        stars.decide(np.zeros((1, 24), np.float32))


def test_its_neuron_is_the_unit_of_most_influence():
    stars = make()
    with torch.no_grad():
        stars.heads.heads.weight.zero_()
        stars.heads.heads.weight[1, 7] = 3  # of two stars, unit 7 at the end
        stars.heads.heads.weight[4, 8] = 2  # of five stars, unit 8 at the end
    assert (stars.neuron, stars.neuron_column, stars.polarity) == (7, 7, -1)
    stars = replace(stars)  # which has not looked yet
    with torch.no_grad():
        stars.heads.heads.weight[4, 12 + 8] = 2  # and its mean, which adds to it
    assert (stars.neuron, stars.neuron_column, stars.polarity) == (8, 8, 1)


def test_it_is_the_same_after_saving_and_loading(folder):
    stars = make(model_digest(load_model(folder).model), Familiarity(bits_per_character=2, bits=9))
    save_stars(folder / "classifier", replace(stars, threshold=0.3), {"made": "here"})
    loaded = load_stars(folder / "classifier", 12)
    assert replace(loaded, heads=stars.heads, threshold=0.5) == stars
    assert loaded.threshold == 0.3
    for name, tensor in stars.heads.state_dict().items():
        assert torch.equal(loaded.heads.state_dict()[name], tensor)
    assert json.loads((folder / "classifier" / CONFIG_FILE).read_text())["origin"]


def test_what_costs_too_many_bits_is_unfamiliar(folder):
    bits = SentimentClassifier.from_pretrained(folder).predict_all(TEXTS).bits_per_character
    limit = Familiarity(bits_per_character=float(np.sort(bits)[1:3].mean()), bits=0)
    digest = model_digest(load_model(folder).model)
    save_stars(folder / "classifier", make(digest, limit))
    answers = SentimentClassifier.from_pretrained(folder).predict_all([*TEXTS, "", "?"])
    assert answers.unfamiliar[:4].tolist() == (bits > limit.bits_per_character).tolist()
    assert answers.unfamiliar[4:].all()
    lenient = replace(limit, bits=1e9)
    save_stars(folder / "classifier", make(digest, lenient))
    assert (
        not SentimentClassifier.from_pretrained(folder).predict_all([*TEXTS, "ok"]).unfamiliar.any()
    )


@pytest.mark.parametrize("kind", [Familiarity, Calibration])
def test_whole_numbers_of_a_description_become_floats(kind):
    """A file may hold 10^30 without a point, by which NumPy cannot multiply."""
    names = [field.name for field in fields(kind)]
    values = vars(fill(kind, dict.fromkeys(names, 10**30), "a.json"))
    assert values == dict.fromkeys(names, 1e30)
    assert {type(value) for value in values.values()} == {float}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "heads"}, "kind is 'heads'; it must be stars"),
        ({"pooling": ["last"]}, "state and pooling are"),
        ({"classes": ["a", "b", "c"]}, "classes is .*; it must be a list of 2"),
        ({"calibration": {"slope": 0.0, "offset": 0.0}}, "calibration.slope is 0.0"),
        ({"calibration": {"slope": 1.0}, "unsure": [0.7, 0.2]}, "the lower one comes first"),
        ({"unsure": [0.2]}, "not a description"),
        ({"familiarity": {"bits": "x", "bits_per_character": 1.0}}, "not a description"),
        ({"threshold": 7}, "threshold is 7"),
        ({"heads": {"hidden_layers": [], "unknown": 1}}, "not a description"),
        ({"heads": {"hidden_layers": [4]}}, "a head that predicts stars must be linear"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(folder, change, message):
    path = folder / "classifier" / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        load_stars(path.parent, 12)


def test_it_works_in_a_callers_inference_mode(small_model, tmp_path):
    """The leading unit is found by a gradient, and inference mode records none."""
    expected = make().influence
    with torch.inference_mode():
        stars = make()  # of tensors that autograd does not know
        np.testing.assert_array_equal(stars.influence, expected)
    np.testing.assert_array_equal(stars.influence, expected)
    assert (stars.neuron, stars.polarity) == (make().neuron, make().polarity)


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


def test_a_probability_at_the_threshold_is_not_above_it():
    stars = replace(make(), threshold=0.75)
    assert stars.choose(np.array([0.5, 0.75, np.nextafter(0.75, 1)])).tolist() == [0, 0, 1]
