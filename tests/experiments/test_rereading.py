"""Runs of the rereading study: the base is the trainer's own, and each change does what it says."""

import numpy as np
import pytest
import torch

from data_utils.corpus import embedded_corpus
from experiments.recipe import rereading
from experiments.recipe.rereading import RUNS, Change, draw_masks, make_trainer
from training.parallel.batch import as_batch

CORPUS = embedded_corpus()


def trained(change, steps=3):
    lanes = rereading.lanes_of(
        CORPUS.splits["train"],
        rereading.DataConfig(lanes=rereading.LANES, window=16, shuffle="balanced"),
        rereading.LANES,
        0,
        slice(None),
    )
    trainer = make_trainer(CORPUS, change, 16, steps, seed=0)
    for step in range(steps):
        draw_masks(trainer.model.layers[0], change.drop_connect, np.random.default_rng(step))
        trainer.train(as_batch(lanes[step], rereading.ALONE.device))
    return trainer


def weights_of(change):
    return {name: p.detach().clone() for name, p in trained(change).model.named_parameters()}


@pytest.fixture(scope="module")
def base():
    return weights_of(Change())


@pytest.mark.parametrize("name", [name for name in RUNS if name != "base"])
def test_every_run_changes_the_training(name, base):
    change = Change(**RUNS[name])
    if (change.texts, change.passes) == (1, 12):
        changed = weights_of(change)
        assert any(not torch.equal(changed[key], base[key]) for key in base)


def test_the_base_trains_as_without_masks(base, monkeypatch):
    monkeypatch.setattr(rereading, "MaskedLayer", rereading.MlstmLayer)
    plain = weights_of(Change())
    assert all(torch.equal(plain[name], base[name]) for name in base)


def test_decay_shrinks_only_what_it_names():
    trainer = make_trainer(CORPUS, Change(weight_decay=0.1, decayed=(".g_",)), 16, 3, seed=0)
    names = {id(p): name for name, p in trainer.model.named_parameters()}
    shrunk = [
        names[id(p)]
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
        if group["weight_decay"]
        for p in group["params"]
    ]
    assert sorted(shrunk) == [f"layers.0.g_{name}" for name in ("h", "mh", "mx", "x")]


def test_masks_are_for_training_alone():
    model = make_trainer(CORPUS, Change(), 16, 3, seed=0).model
    whole = model.prepare_weights().layers[0].recurrent.w_h
    draw_masks(model.layers[0], 0.5, np.random.default_rng(0))
    masked = model.prepare_weights().layers[0].recurrent.w_h
    assert (masked == 0).float().mean() == pytest.approx(0.5, abs=0.1)
    model.eval()
    assert torch.equal(model.prepare_weights().layers[0].recurrent.w_h, whole)


def test_the_worth_of_passes_is_found_again():
    law = {"e": 1.7, "b": 0.5, "beta": 0.4}

    def run(texts):
        bits = law["e"] + law["b"] * texts ** -law["beta"]
        row = {"train_bits_per_character": bits, "valid_bits_per_character": bits}
        return [{"rows": [row], "mean_of_last_pass": bits}]

    fresh = {f"fresh_{texts}": run(texts) for texts in (1, 2, 4, 12)}
    equal = 1 + 3.0 * (1 - np.exp(-11 / 3.0))  # of twelve passes, if R* is 3
    found = rereading.worth(fresh | {"base": run(equal)})
    assert found == {"base": pytest.approx((equal, 3.0), rel=1e-3)}
