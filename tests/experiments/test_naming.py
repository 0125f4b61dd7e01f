"""Names of the sentiment neuron: a unit that knows the label is named by every rule."""

import numpy as np
import pytest
import torch

from experiments.neuron import naming
from model.files.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile
from transfer.regression import Examples, l1_regression

UNIT = 3


def examples(count, seed, shift=0.0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    features = random.normal(size=(count, 6)).astype(np.float32)
    features[:, UNIT] += 4 * labels + shift
    return Examples(features, labels)


def parts(shift=0.0):
    sets = {"sst": 0, "cr": 10, "imdb": 20}
    return {
        name: [examples(200, seed + part, shift if name == "cr" else 0.0) for part in range(3)]
        for name, seed in sets.items()
    }


def test_every_rule_names_the_unit_that_knows_the_label():
    found = naming.name_units(parts())
    assert found["named"] == {of: dict.fromkeys(naming.RULES, UNIT) for of in naming.OTHER}
    assert found["halves"] == {rule: [UNIT] * naming.HALVES for rule in naming.RULES}
    assert [found["best_three"][rule][0][0] for rule in naming.RULES] == [UNIT] * 4
    assert found["units"].keys() == {str(UNIT)}
    assert found["units"][str(UNIT)]["sst"]["test_accuracy"] > 0.95


def test_a_cut_that_does_not_carry_over_names_another_unit():
    named = naming.name_units(parts(shift=20.0))["named"]["sst"]
    assert named["carried"] != UNIT
    assert named["area"] == named["path"] == UNIT


def test_the_first_unit_on_the_path_is_that_of_the_strongest_penalty():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 400)
    features = random.normal(size=(400, 8)) + 0.3 * labels[:, None] * np.arange(8)
    features -= features.mean(0)
    first = naming.scores_of(
        Examples(features, labels), np.zeros(8), naming.fit_cuts(Examples(features, labels))
    )["path"].argmax()
    weights = (l1_regression(c).fit(features, labels).coef_[0] for c in np.geomspace(1e-4, 1, 200))
    on_path = next(w for w in weights if w.any())
    assert np.flatnonzero(on_path).tolist() == [first]


@pytest.mark.parametrize("bits", [8, 6])
def test_weights_are_rounded_as_a_shipped_model_has_them(bits, tmp_path):
    model = build_model(ModelConfig(hidden_size=8), seed=0)
    save_model(tmp_path, model, text_profile("openai"), {}, quantized=True, bits=bits)
    naming.round_weights(model, bits)
    shipped = load_model(tmp_path).model.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, shipped[name]), name


def test_fewer_bits_change_the_weights_more():
    errors = []
    for bits in (16, 8, 6, 4):
        model = build_model(ModelConfig(hidden_size=8), seed=0)
        whole = model.decoder.weight.detach().clone()
        naming.round_weights(model, bits)
        errors.append((model.decoder.weight - whole).abs().max().item())
    assert 0 < errors[0] < errors[1] < errors[2] < errors[3]
