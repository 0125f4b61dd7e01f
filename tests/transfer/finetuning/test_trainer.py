"""Which parameters learn, and at which rates."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import LoadedModel
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.transfer.finetuning.tasks import several, single
from transfer.features import FeatureCache
from transfer.finetuning import trainer
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.encoder import features_of
from transfer.finetuning.experiment import make_finetuner
from transfer.finetuning.task import make_task
from transfer.finetuning.trainer import POOL, batches_per_epoch, epoch_batches, head_loss
from transfer.metrics import choose_threshold, metrics_of


def finetuner(model, folder, parts=None, **settings):
    loaded = LoadedModel(model, text_profile("openai"), folder)
    task = make_task(loaded, *(parts or (several(24), several(12, seed=50))))
    config = FinetuningConfig(**{"batch_size": 8, "warmup": 0.0, **settings})
    tuner = make_finetuner(
        loaded, task, config, torch.device("cpu"), FeatureCache(folder / "features")
    )
    tuner.standardize()
    return tuner


def changes(tuner, steps=1):
    """Take steps from the first on; return by how much each parameter moved at most."""
    modules = {"model": tuner.model, "heads": tuner.heads}
    named = {f"{m}.{n}": p for m, module in modules.items() for n, p in module.named_parameters()}
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    for _ in range(steps):
        tuner.step(np.arange(8))
    return {name: float((p.detach() - before[name]).abs().max()) for name, p in named.items()}


def test_frozen_only_the_heads_learn_at_rates_that_rise_and_fall(small_model, tmp_path):
    moved = changes(finetuner(small_model, tmp_path, freeze=True, hidden_layers=(5,)))
    assert {name for name, change in moved.items() if change} == {
        name for name in moved if name.startswith("heads.")
    }
    tuner = finetuner(small_model, tmp_path, freeze=True, head_lr=1.0, epochs=2, warmup=0.5)
    rates = []
    for _ in range(6):  # three batches an epoch
        tuner.step(np.arange(8))
        rates.append(tuner.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 2 / 3, 1 / 3])


def test_all_learns_but_the_decoder(small_model, tmp_path):
    tuner = finetuner(small_model, tmp_path)
    tuner.run_epoch(lambda: False)  # a step
    moved = changes(tuner)
    still = {name for name, change in moved.items() if not change}
    assert still == {"model.decoder.weight", "model.decoder.bias"}


@pytest.mark.parametrize("window", [1, 3])
def test_a_text_is_learned_from_its_last_tokens_alone(small_model, tmp_path, window):
    tuner = finetuner(small_model, tmp_path, window=window)
    tuner.step(np.arange(8))
    learned = tuner.model.embedding.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert learned == sorted({int(t) for text in tuner.task.train[:8] for t in text[-window:]})


def test_the_model_learns_at_a_fraction_of_the_heads_rate_and_clipped(small_model, tmp_path):
    """The first step of Adam moves every parameter by its rate, whatever its gradient."""
    tuner = finetuner(small_model, tmp_path, head_lr=1e-2, encoder_factor=0.1, clip_norm=1e9)
    moved = changes(tuner)
    assert moved["heads.heads.weight"] == pytest.approx(1e-2, rel=1e-3)
    assert moved["model.layers.0.w_h"] == pytest.approx(1e-3, rel=1e-2)
    assert moved["model.embedding.weight"] == pytest.approx(1e-3, rel=1e-2)
    tuner = finetuner(small_model, tmp_path, clip_norm=1e-3)
    tuner.step(np.arange(8))
    learning = [parameter.grad for parameter in tuner.parameters if parameter.grad is not None]
    assert torch.nn.utils.get_total_norm(learning).item() == pytest.approx(1e-3, rel=1e-3)


def test_each_step_and_each_seed_drops_other_units(small_model, tmp_path):
    def losses(dropout, seed=0):
        still = {"head_lr": 1e-12, "dropout": dropout, "seed": seed}
        tuner = finetuner(small_model, tmp_path, freeze=True, epochs=9, **still)
        with torch.no_grad():
            tuner.heads.heads.weight.fill_(1.0)
        sums = [0.0]
        for _ in range(4):
            tuner.step(np.arange(8))
            sums.append(tuner.progress.head_loss)
        return [round(loss, 4) for loss in np.diff(sums)]

    dropped = losses(0.5)
    assert len(set(dropped)) == 4
    assert losses(0.5) == dropped
    assert not set(losses(0.5, seed=1)) & set(dropped)
    assert len(set(losses(0.0))) == 1


def test_a_row_and_an_epoch_are_of_all_texts_in_a_new_order(small_model, tmp_path, monkeypatch):
    tuner, losses = finetuner(small_model, tmp_path, epochs=2), []
    monkeypatch.setattr(
        trainer, "head_loss", lambda *both: losses.append(head_loss(*both)) or losses[-1]
    )
    for first in (0, 3):
        tuner.run_epoch(lambda: True)
        expected = np.mean([loss.item() for loss in losses[first:]])
        assert tuner.history[-1]["train_loss"] == pytest.approx(expected)
    tuner, read = finetuner(small_model, tmp_path, freeze=True, epochs=2), []
    step = tuner.step
    monkeypatch.setattr(tuner, "step", lambda rows: (read.append(rows.tolist()), step(rows)))
    for _ in range(2):
        tuner.run_epoch(lambda: True)
    first, second = read[:3], read[3:]
    for epoch in (first, second):
        assert sorted(np.concatenate(epoch)) == list(range(24))
    assert first != second


def test_the_first_of_the_best_epochs_is_kept_even_if_all_are_below_zero(
    small_model, tmp_path, monkeypatch
):
    tuner = finetuner(small_model, tmp_path, freeze=True, epochs=9)
    is_best = []
    for score in (-0.5, -0.5, -0.25, -0.75):
        scored = (tuner.tuned(), {"f1_macro": score})
        monkeypatch.setattr(tuner, "evaluate", lambda scored=scored: scored)
        is_best.append(tuner.conclude_epoch() is not None)
    assert is_best == [True, False, True, False]
    assert (tuner.progress.best_epoch, tuner.progress.best_value) == (3, -0.25)


@pytest.mark.parametrize("draw", [several, partial(single, classes=2)])
def test_thresholds_are_chosen_on_val_by_f1_of_several_labels_and_by_accuracy_of_one(
    small_model, tmp_path, draw
):
    tuner = finetuner(small_model, tmp_path, (draw(24), draw(40, seed=50)), freeze=True)
    tuned, metrics = tuner.evaluate()
    probabilities = tuned.probabilities(tuner.frozen["val"])
    truth = tuner.task.val_labels
    assert metrics == metrics_of(truth, tuned.choose(probabilities), 2)
    assert tuner.metric == ("f1_macro" if tuner.task.is_multilabel else "accuracy")
    if not tuner.task.is_multilabel:
        assert tuned.thresholds == (choose_threshold(probabilities, truth),)
        return
    for threshold, column, of_class in zip(tuned.thresholds, probabilities.T, truth.T, strict=True):
        assert threshold == choose_threshold(column, of_class, "f1")


@pytest.mark.parametrize(("batch_size", "part"), [(8, 1 / 4), (2, 1.0), (100, 2 / 24)])
def test_a_text_weighs_the_same_in_an_epochs_smallest_batch(
    batch_size, part, small_model, tmp_path
):
    """Its gradients are compared with those of a full batch; there are 24 training texts."""
    settings = {"clip_norm": 1e9}
    full, tuner = (
        finetuner(copy.deepcopy(small_model), tmp_path / str(size), batch_size=size, **settings)
        for size in (2, batch_size)
    )
    for each in (full, tuner):
        each.step(np.array([3, 11]))
    for one, other in zip(tuner.heads.parameters(), full.heads.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad * part)
    torch.testing.assert_close(
        tuner.model.embedding.weight.grad, full.model.embedding.weight.grad * part
    )
    rates = [each.optimizer.param_groups[0]["lr"] for each in (tuner, full)]
    assert rates[0] == pytest.approx(rates[1] * part)
    assert tuner.progress.head_loss == pytest.approx(full.progress.head_loss)  # as it is


def test_decay_shrinks_every_weight_by_its_own_rate(tmp_path):
    after = []
    for weight_decay in (0.0, 2.0):
        model = build_model(ModelConfig(hidden_size=8), seed=1)
        rates = {"head_lr": 1e-2, "encoder_factor": 0.5}
        tuner = finetuner(model, tmp_path, **rates, weight_decay=weight_decay)
        heads, layer = tuner.heads.heads.weight, tuner.model.layers[0].w_h
        before = heads.detach().clone(), layer.detach().clone()
        tuner.step(np.arange(8))
        after.append((heads.detach(), layer.detach()))
    for number, rate in enumerate((1e-2, 5e-3)):
        lost = after[0][number] - after[1][number]
        torch.testing.assert_close(lost, rate * 2.0 * before[number], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("freeze", [False, True])
def test_the_best_heads_hold_the_spread_that_units_have_after_learning(
    small_model, tmp_path, freeze
):
    learning = {"freeze": True} if freeze else {"encoder_factor": 1.0}
    tuner = finetuner(small_model, tmp_path, head_lr=1e-2, **learning)
    before = tuner.heads.scale.clone()
    first = features_of(tuner.model, "train", tuner.task.train).astype(np.float64)
    np.testing.assert_allclose(tuner.heads.center, first.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(before, first.std(0), rtol=1e-3)
    tuned = tuner.run_epoch(lambda: True)
    now = features_of(tuner.model, "train", tuner.task.train)
    untouched = tuner.tuned()  # with the statistics from before
    np.testing.assert_allclose(tuned.steps[0].center, now.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tuned.probabilities(now), untouched.probabilities(now), rtol=1e-4)
    np.testing.assert_array_equal(untouched.steps[0].scale, before)
    assert np.array_equal(tuned.steps[0].scale, before) == freeze


def test_a_loss_that_is_not_finite_is_refused(small_model, tmp_path):
    tuner = finetuner(small_model, tmp_path, parts=(single(24), single(12, seed=50)))
    with torch.no_grad():
        tuner.heads.heads.bias.fill_(float("nan"))
    with pytest.raises(InputError, match=r"step 1: .* not finite; try a lower --head-lr"):
        tuner.step(np.arange(8))
    assert torch.isfinite(tuner.model.embedding.weight).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "--epochs is 0; it must be at least 1"),
        ({"head_lr": 0.0}, "--head-lr is 0.0; it must be above zero"),
        ({"head_lr": np.inf}, "--head-lr is inf; it must be finite"),
        ({"weight_decay": np.nan}, "--weight-decay is nan; it must be finite"),
        ({"weight_decay": -1.0}, "--weight-decay is -1.0; it must be at least zero"),
        ({"freeze": True, "encoder_factor": 0.3}, "--freeze leaves nothing for --encoder-"),
        ({"freeze": True, "window": 9}, "--freeze leaves nothing for --window to change"),
        ({"warmup": 1.5}, "--warmup is 1.5"),
        ({"dropout": 1.0}, "--dropout is 1.0"),
        ({"hidden_layers": (0,)}, r"--hidden-layers is \(0,\); it must be at least 1 and"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FinetuningConfig(**settings)


LENGTHS = np.random.default_rng(0).integers(1, 200, size=1003)  # of texts


def test_every_text_is_in_one_batch_with_like_lengths_in_a_random_place():
    batches = epoch_batches(LENGTHS, 8, seed=1, epoch=0)
    assert sorted(np.concatenate(batches)) == list(range(1003))
    assert len(batches) == batches_per_epoch(1003, 8)
    assert sorted(map(len, batches))[:2] == [3, 8]
    batches = epoch_batches(LENGTHS, 8, seed=1, epoch=0)
    spread = [LENGTHS[batch].max() - LENGTHS[batch].min() for batch in batches if len(batch) == 8]
    assert np.median(spread) <= 3 * 200 / POOL
    means = [LENGTHS[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


LOGITS = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 2, 3)))  # B, K, C
SINGLE = np.array([0, 2, 2, 1, 2, 0, 2])
SEVERAL = (np.random.default_rng(1).random((7, 3)) > 0.6).astype(np.int64)


def test_each_loss_is_scikit_learns():
    each = [log_loss(SINGLE, LOGITS[:, k].softmax(-1).numpy()) for k in range(2)]
    loss = head_loss(LOGITS, torch.from_numpy(SINGLE))
    assert float(loss) == pytest.approx(np.mean(each), rel=1e-12)
    each = [
        log_loss(SEVERAL[:, c], LOGITS[:, k, c].sigmoid().numpy(), labels=[0, 1])
        for k in range(2)
        for c in range(3)
    ]
    loss = head_loss(LOGITS, torch.from_numpy(SEVERAL))
    assert float(loss) == pytest.approx(np.mean(each), rel=1e-12)
