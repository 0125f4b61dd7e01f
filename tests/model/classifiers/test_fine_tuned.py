"""Fine-tuned heads: their arithmetic, on disk and back, and in the classifier that reads texts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from model import SentimentClassifier, SentimentFeaturizer, save_model
from model.classifiers.classifier import CONFIG_FILE, WEIGHTS_FILE
from model.classifiers.fine_tuned import FineTuned, load_fine_tuned, save_fine_tuned
from model.classifiers.fitted import load_fitted, own_classifier
from model.classifiers.heads import HeadsConfig, build_heads
from model.errors import InputError
from model.files.weights import load_model, model_digest
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile

FEATURES = np.random.default_rng(0).normal(2.0, 3.0, size=(9, 12)).astype(np.float32)
CONFIG = HeadsConfig(hidden_layers=(7, 5), heads_per_class=3, dropout=0.4)
TEXTS = ["good", "", "An awful thing. " * 30, "bad\nnews"]


def make(classes=("joy", "fear", "love"), exclusive=False, digest="d", config=CONFIG):
    heads = build_heads(config, 12, len(classes), seed=1)
    heads.standardize_by(torch.from_numpy(FEATURES))
    thresholds = (0.5,) if exclusive and len(classes) == 2 else (0.4, 0.5, 0.6)[: len(classes)]
    if exclusive and len(classes) > 2:
        thresholds = ()
    return FineTuned(heads.eval(), classes, exclusive, thresholds, digest)


def by_hand(tuned, features):
    """The heads' logits [N, K, C] in NumPy, fp64."""
    state = {name: t.numpy().astype(np.float64) for name, t in tuned.heads.state_dict().items()}
    z = (features - state["center"]) / state["scale"]
    for index in range(len(tuned.heads.config.hidden_layers)):
        z = z @ state[f"hidden.{index}.weight"].T + state[f"hidden.{index}.bias"]
        z = np.where(z > 0, z, state[f"activations.{index}.weight"] * z)
    logits = z @ state["heads.weight"].T + state["heads.bias"]
    return logits.reshape(len(features), tuned.heads.config.heads_per_class, -1)


@pytest.mark.parametrize("classes", [("joy", "fear"), ("joy", "fear", "love")])
def test_classes_that_do_not_exclude_each_other(classes):
    tuned = make(classes)
    tuned.heads.train()  # as a training leaves them: their dropout is not for answers
    expected = (1 / (1 + np.exp(-by_hand(tuned, FEATURES)))).mean(1)
    probabilities = tuned.probabilities(FEATURES)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    np.testing.assert_allclose(
        tuned.decide(FEATURES), np.log(expected / (1 - expected)), rtol=1e-4, atol=1e-5
    )
    assert (tuned.choose(probabilities) == (expected > [0.4, 0.5, 0.6][: len(classes)])).all()
    assert tuned.is_multilabel
    assert not tuned.is_binary


@pytest.mark.parametrize("config", [CONFIG, HeadsConfig()])
def test_other_statistics_leave_the_logits(config):
    tuned, moved = make(config=config), FEATURES * np.linspace(0.1, 9, 12, dtype=np.float32) - 5
    before = by_hand(tuned, FEATURES)
    tuned.heads.restandardize_by(torch.from_numpy(moved))
    np.testing.assert_allclose(tuned.heads.center, moved.mean(0), rtol=1e-5)
    np.testing.assert_allclose(tuned.heads.scale, moved.std(0), rtol=1e-5)
    np.testing.assert_allclose(by_hand(tuned, FEATURES), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("classes", [("bad", "good"), ("1", "2", "3")])
def test_classes_that_exclude_each_other(classes):
    tuned = make(classes, exclusive=True)
    powers = np.exp(by_hand(tuned, FEATURES))
    expected = (powers / powers.sum(-1, keepdims=True)).mean(1)
    probabilities = tuned.probabilities(FEATURES)
    np.testing.assert_allclose(
        probabilities, expected[:, 1] if len(classes) == 2 else expected, atol=1e-6
    )
    assert (tuned.choose(probabilities) == expected.argmax(1)).all()
    if len(classes) == 2:
        strict = tuned.with_threshold(0.9)
        assert (strict.choose(probabilities) == (expected[:, 1] > 0.9)).all()
        assert strict.unsure == pytest.approx((0.8, 1.0))
    assert tuned.unsure == (0.4, 0.6)


def test_certain_probabilities_have_finite_odds():
    tuned = make(config=HeadsConfig())
    odds = tuned.decide(FEATURES * 1e6)
    assert np.isfinite(odds).all()


def test_heads_have_masks_of_their_own_in_training_only():
    alike = make(config=HeadsConfig(heads_per_class=2, dropout=0.5)).heads
    with torch.no_grad():
        for part in (alike.heads.weight, alike.heads.bias):
            part[3:] = part[:3]
    features = torch.from_numpy(FEATURES)
    first, second = alike(features).unbind(1)
    torch.testing.assert_close(first, second)
    first, second = alike.train()(features).unbind(1)
    assert (first != second).any()


def test_a_unit_that_never_moves_is_no_division_by_zero():
    heads = build_heads(HeadsConfig(), 3, 2, seed=0)
    heads.standardize_by(torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0]]))
    assert heads.scale.tolist() == pytest.approx([1.0, 0.01, 2.0])
    heads.standardize_by(torch.ones(3, 3))
    assert heads.scale.tolist() == [1.0, 1.0, 1.0]


def test_a_seed_gives_the_same_heads_and_leaves_the_callers_random_numbers(monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("GPUs were seeded"))
    before = torch.get_rng_state()
    first, again, other = (build_heads(CONFIG, 12, 3, seed).heads.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_was_saved_comes_back(tmp_path):
    tuned = make()
    save_fine_tuned(tmp_path, tuned)
    loaded = load_fine_tuned(tmp_path, hidden_size=12)
    assert replace(loaded, heads=tuned.heads) == tuned
    assert loaded.heads.config == CONFIG
    assert (loaded.probabilities(FEATURES) == tuned.probabilities(FEATURES)).all()


def test_weights_of_16_bits_are_widened(tmp_path):
    save_fine_tuned(tmp_path, make())
    path = tmp_path / WEIGHTS_FILE
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path)
    loaded = load_fine_tuned(tmp_path, hidden_size=12)
    assert {tensor.dtype for tensor in loaded.heads.state_dict().values()} == {torch.float32}
    np.testing.assert_allclose(
        loaded.probabilities(FEATURES), make().probabilities(FEATURES), atol=0.05
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 4}, "format_version 4 is newer"),
        ({"kind": "trees"}, "kind is 'trees'; it must be heads"),
        ({"state": "hidden"}, "state is 'hidden'"),
        ({"classes": ["a"]}, "it has 1 of them"),
        ({"classes": ["a", "b", "a"]}, "different names"),
        ({"exclusive": "no"}, "exclusive is 'no'"),
        ({"thresholds": [0.5]}, "1 thresholds for 3 classes"),
        (
            {"thresholds": [0.5, 0.5, 7]},
            r"thresholds is .*7\); it must be at least zero and at most 1",
        ),
        ({"heads": None}, "not a description of heads"),
        ({"heads": {"hidden_layers": [7]}}, "tensor"),
        ({"heads": {"hidden_layers": [2**62]}}, r"hidden_layers is \(4611686018427387904,\)"),
        ({"heads": {"hidden_layers": [1] * 100_000}}, "number of hidden layers is 100000"),
        ({"heads": {"hidden_layers": [], "heads_per_class": 2**40}}, "heads_per_class is 10995"),
        ({"heads": {"hidden_layers": [], "heads_per_class": 1.5}}, "heads_per_class is 1.5"),
        ({"heads": {"hidden_layers": [], "dropout": "x"}}, "not a description of heads"),
        ({"classes": 3}, "classes is 3; it must be a list"),
        ({"heads": {"hidden_layers": [7, 5], "width": 3}}, "not a description of heads"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path, change, message):
    save_fine_tuned(tmp_path, make())
    path = tmp_path / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        load_fine_tuned(tmp_path, hidden_size=12)


def test_damaged_weights_are_refused(tmp_path):
    save_fine_tuned(tmp_path, make())
    with pytest.raises(InputError, match="tensor"):
        load_fine_tuned(tmp_path, hidden_size=13)
    whole = load_file(tmp_path / WEIGHTS_FILE)
    for name, value, message in (
        ("heads.bias", torch.nan, r"heads\.bias holds NaN"),
        ("scale", 0.0, "scale, which divides the features"),
    ):
        tensors = {key: tensor.clone() for key, tensor in whole.items()}
        tensors[name][0] = value
        save_file(tensors, tmp_path / WEIGHTS_FILE)
        with pytest.raises(InputError, match=message):
            load_fine_tuned(tmp_path, hidden_size=12)
    (tmp_path / WEIGHTS_FILE).write_bytes(b"no weights")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_fine_tuned(tmp_path, hidden_size=12)


@pytest.fixture
def folder(small_model, tmp_path):
    """A model directory with heads inside."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    digest = model_digest(load_model(tmp_path / "model").model)
    save_fine_tuned(tmp_path / "model/classifier", make(digest=digest))
    return tmp_path / "model"


def test_texts_may_have_several_labels(folder):
    classifier = SentimentClassifier.from_pretrained(folder, batch_size=2)
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (4, 3)
    assert (classifier.predict(TEXTS) == (probabilities > [0.4, 0.5, 0.6])).all()
    assert classifier.decision_function(TEXTS).shape == (4, 3)
    with pytest.raises(InputError, match=r"each has its own; leave threshold out"):
        SentimentClassifier.from_pretrained(folder, threshold=0.3)


def test_the_neuron_of_heads_is_the_unit_of_most_influence(folder):
    """With several classes it is the unit that moves any of them most, signed as for the last."""
    own = own_classifier(load_model(folder))
    features = own.heads.center.repeat(12, 1) + 1e-3 * torch.diag(own.heads.scale)
    moved = own.probabilities(features.numpy()) - own.probabilities(own.heads.center[None].numpy())
    assert own.neuron == np.abs(moved).max(1).argmax()
    assert own.polarity == np.sign(moved[own.neuron, -1])
    classifier = SentimentClassifier.from_pretrained(folder)
    values = SentimentFeaturizer.from_pretrained(folder).transform(TEXTS)[:, own.neuron]
    np.testing.assert_allclose(classifier.neuron_values(TEXTS), values, atol=1e-6)
    assert f"unit {own.neuron}" in repr(classifier)
    assert own_classifier(load_model(folder), layer=0).neuron == own.neuron  # the only layer
    with pytest.raises(InputError, match="layer 1: the model has layers 0 to 0"):
        own_classifier(load_model(folder), layer=1)


def test_a_classifier_knows_no_unit_of_a_layer_below_the_last(tmp_path):
    model = build_model(ModelConfig(hidden_size=12, embedding_size=6, layers=2), seed=3)
    save_model(tmp_path, model, text_profile("openai"), {})
    save_fine_tuned(tmp_path / "classifier", make(digest=model_digest(load_model(tmp_path).model)))
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
    tuned, step = make(classes, exclusive), 1e-5
    center, scale = tuned.heads.center.double().numpy(), tuned.heads.scale.double().numpy()
    up, down = (by_hand(tuned, center + side * np.diag(scale)) for side in (step, -step))
    if exclusive:
        up, down = (np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in (up, down))
    else:
        up, down = (1 / (1 + np.exp(-z)) for z in (up, down))
    slopes = (up - down).mean(1) / (2 * step)  # [H, C]
    np.testing.assert_allclose(tuned.influence, slopes[:, poles].T, rtol=1e-4, atol=1e-6)


def test_heads_of_another_model_or_a_newer_format_are_refused(folder):
    loaded = load_model(folder)
    save_fine_tuned(folder / "classifier", make(digest="another"))
    with pytest.raises(InputError, match=r"another model, not on .*; fix it so"):
        load_fitted(loaded, folder / "classifier", "fix it so")
    path = folder / "classifier" / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 8}))
    with pytest.raises(InputError, match="format_version 8 is newer"):
        load_fitted(loaded, folder / "classifier", "")
