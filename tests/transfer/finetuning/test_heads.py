"""Heads that learn: their arithmetic, and the head that they become."""

import numpy as np
import pytest
import torch

from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import own_classifier, save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.tensors import model_digest
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from transfer.finetuning.heads import HeadsConfig, build_heads

FEATURES = np.random.default_rng(0).normal(2.0, 3.0, size=(9, 12)).astype(np.float32)
CONFIG = HeadsConfig(hidden_layers=(7, 5), heads_per_class=3, dropout=0.4)
TEXTS = ["good", "", "An awful thing. " * 30, "bad\nnews"]


def network(classes=3, config=CONFIG):
    heads = build_heads(config, 12, classes, seed=1)
    heads.standardize_by(torch.from_numpy(FEATURES))
    return heads


def make(classes=("joy", "fear", "love"), exclusive=False, digest="d", config=CONFIG):
    thresholds = None if exclusive else (0.4, 0.5, 0.6)[: len(classes)]
    return network(len(classes), config).as_head(
        classes, exclusive=exclusive, thresholds=thresholds, model_digest=digest
    )


def by_hand(heads, features):
    """The heads' logits [N, K, C] in NumPy, fp64."""
    state = {name: t.numpy().astype(np.float64) for name, t in heads.state_dict().items()}
    z = (features - state["center"]) / state["scale"]
    for index in range(len(heads.config.hidden_layers)):
        z = z @ state[f"hidden.{index}.weight"].T + state[f"hidden.{index}.bias"]
        z = np.where(z > 0, z, state[f"activations.{index}.weight"] * z)
    logits = z @ state["heads.weight"].T + state["heads.bias"]
    return logits.reshape(len(features), heads.config.heads_per_class, -1)


def test_the_network_computes_these_logits():
    logits = network().eval()(torch.from_numpy(FEATURES)).detach().numpy()
    np.testing.assert_allclose(logits, by_hand(network(), FEATURES), atol=1e-5)


@pytest.mark.parametrize("classes", [("joy", "fear"), ("joy", "fear", "love")])
def test_classes_that_do_not_exclude_each_other(classes):
    tuned = make(classes)
    expected = (1 / (1 + np.exp(-by_hand(network(len(classes)), FEATURES)))).mean(1)
    probabilities = tuned.probabilities(FEATURES)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    np.testing.assert_allclose(
        tuned.answer(FEATURES).scores, np.log(expected / (1 - expected)), rtol=1e-4, atol=1e-5
    )
    assert (tuned.choose(probabilities) == (expected > [0.4, 0.5, 0.6][: len(classes)])).all()
    assert np.isfinite(tuned.answer(FEATURES * 1e6).scores).all()  # certain ones, too
    assert tuned.several_labels
    assert not tuned.is_binary


@pytest.mark.parametrize("config", [CONFIG, HeadsConfig()])
def test_other_statistics_leave_the_logits(config):
    tuned, moved = network(config=config), FEATURES * np.linspace(0.1, 9, 12, dtype=np.float32) - 5
    before = by_hand(tuned, FEATURES)
    tuned.restandardize_by(torch.from_numpy(moved))
    np.testing.assert_allclose(tuned.center, moved.mean(0), rtol=1e-5)
    np.testing.assert_allclose(tuned.scale, moved.std(0), rtol=1e-5)
    np.testing.assert_allclose(by_hand(tuned, FEATURES), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("classes", [("bad", "good"), ("1", "2", "3")])
def test_classes_that_exclude_each_other(classes):
    tuned = make(classes, exclusive=True)
    powers = np.exp(by_hand(network(len(classes)), FEATURES))
    expected = (powers / powers.sum(-1, keepdims=True)).mean(1)
    probabilities = tuned.probabilities(FEATURES)
    np.testing.assert_allclose(
        probabilities, expected[:, 1] if len(classes) == 2 else expected, atol=1e-6
    )
    assert (tuned.choose(probabilities) == expected.argmax(1)).all()
    if len(classes) == 2:
        strict = tuned.with_threshold(0.9)
        assert (strict.choose(probabilities) == (expected[:, 1] > 0.9)).all()
        assert strict.unsure == pytest.approx((6 / 7, 13.5 / 14.5))  # odds of 9, and by 1.5
    assert tuned.unsure == (0.4, 0.6)


def test_heads_have_masks_of_their_own_in_training_only():
    alike = network(config=HeadsConfig(heads_per_class=2, dropout=0.5)).eval()
    with torch.no_grad():
        for part in (alike.heads.weight, alike.heads.bias):
            part[3:] = part[:3]
    features = torch.from_numpy(FEATURES)
    first, second = alike(features).unbind(1)
    torch.testing.assert_close(first, second)
    first, second = alike.train()(features).unbind(1)
    assert (first != second).any()


def test_heads_begin_from_their_seed_and_no_unit_is_divided_by_zero(monkeypatch):
    heads = build_heads(HeadsConfig(), 3, 2, seed=0)
    heads.standardize_by(torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0]]))
    assert heads.scale.tolist() == pytest.approx([1.0, 0.01, 2.0])
    heads.standardize_by(torch.ones(3, 3))
    assert heads.scale.tolist() == [1.0, 1.0, 1.0]
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("GPUs were seeded"))
    before = torch.get_rng_state()
    first, again, other = (build_heads(CONFIG, 12, 3, seed).heads.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def folder(small_model, tmp_path):
    """A model directory with heads inside."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    digest = model_digest(load_model(tmp_path / "model").model)
    save_head(tmp_path / "model/classifier", make(digest=digest))
    return tmp_path / "model"


def test_texts_may_have_several_labels(folder):
    classifier = SentimentClassifier.from_pretrained(folder)
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (4, 3)
    assert (classifier.predict(TEXTS) == (probabilities > [0.4, 0.5, 0.6])).all()
    assert classifier.decision_function(TEXTS).shape == (4, 3)
    with pytest.raises(InputError, match=r"each has its own; leave threshold out"):
        SentimentClassifier.from_pretrained(folder, threshold=0.3)


def test_the_neuron_of_heads_is_the_unit_of_most_influence_of_the_last_layer(folder, tmp_path):
    """With several classes it is the unit that moves any of them most, signed as for the last."""
    own = own_classifier(load_model(folder))
    center, scale = own.steps[0].center, own.steps[0].scale
    moved = own.probabilities(center + 1e-3 * np.diag(scale)) - own.probabilities(center[None])
    assert own.neuron == np.abs(moved).max(1).argmax()
    assert own.polarity == np.sign(moved[own.neuron, -1])
    classifier = SentimentClassifier.from_pretrained(folder)
    values = SentimentFeaturizer.from_pretrained(folder).transform(TEXTS)[:, own.neuron]
    np.testing.assert_allclose(classifier.predict_all(TEXTS).neuron, values, atol=1e-6)
    assert f"unit {own.neuron}" in repr(classifier)
    assert own_classifier(load_model(folder), layer=0).neuron == own.neuron  # the only layer
    with pytest.raises(InputError, match="layer 1: the model has layers 0 to 0"):
        own_classifier(load_model(folder), layer=1)
    model = build_model(ModelConfig(hidden_size=12, embedding_size=6, layers=2), seed=3)
    save_model(tmp_path, model, text_profile("openai"), {})
    save_head(tmp_path / "classifier", make(digest=model_digest(load_model(tmp_path).model)))
    last = own_classifier(load_model(tmp_path), layer=1)
    assert last.neuron == own_classifier(load_model(tmp_path), layer=-1).neuron
    for layer in (0, -2):
        with pytest.raises(InputError, match=f"layer {layer}: .* only the last layer"):
            own_classifier(load_model(tmp_path), layer=layer)


@pytest.mark.parametrize(
    ("classes", "exclusive", "poles"),
    [
        (("joy", "fear"), False, [0, 1]),
        (("1", "2", "3"), True, [0, 1, 2]),
        (("bad", "good"), True, [1]),  # that of the first is the same, with the opposite sign
    ],
)
def test_its_influence_is_the_slope_of_every_class_at_the_mean_text(classes, exclusive, poles):
    heads, step = network(len(classes)), 1e-5
    tuned = make(classes, exclusive)
    center, scale = heads.center.double().numpy(), heads.scale.double().numpy()
    up, down = (by_hand(heads, center + side * np.diag(scale)) for side in (step, -step))
    if exclusive:
        up, down = (np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in (up, down))
    else:
        up, down = (1 / (1 + np.exp(-z)) for z in (up, down))
    slopes = (up - down).mean(1) / (2 * step)  # [H, C]
    np.testing.assert_allclose(tuned.influence, slopes[:, poles].T, rtol=1e-4, atol=1e-6)
