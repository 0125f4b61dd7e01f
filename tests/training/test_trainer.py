"""A training step against the same computed by hand; padding, clipping and loss scaling."""

import copy

import numpy as np
import pytest
import torch

from data_utils.lanes import Lanes
from mlstm_sentiment.errors import InputError
from tests.support.trainers import CPU, make_trainer, make_window
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.trainer import Diverged, TrainConfig, draw_dropout_mask


def gradients(trainer):
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters()}


def nats_by_hand(model, window):
    """Return the nats of every token that follows, of real bytes and of padding, [B, T]."""
    tokens = torch.from_numpy(window.tokens).long()
    logits, _ = model(tokens[:, :-1], model.initial_state(3))
    return -logits.log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze(2)


def check_gradients(trainer, reference):
    expected = {name: p.grad for name, p in reference.named_parameters()}
    for name, gradient in gradients(trainer).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-5, atol=1e-7)


def test_loss_is_the_sum_over_real_bytes_divided_by_their_number():
    trainer = make_trainer()
    window = make_window(lengths=(6, 2, 0))
    reference = copy.deepcopy(trainer.model)
    trainer.train(as_batch(window, CPU))

    chosen = nats_by_hand(reference, window)
    total = chosen[0, :6].sum() + chosen[1, :2].sum()
    (total / 8).backward()

    row = trainer.close_row()
    assert row["train_bits_per_character"] == pytest.approx(total.item() / 8 / np.log(2), rel=1e-6)
    assert row["characters"] == 8
    check_gradients(trainer, reference)


def test_a_row_is_the_mean_over_its_steps_their_windows_and_micro_batches_and_per_byte():
    still = {"name": "sgd", "lr": 1e-12}  # the weights stay
    trainer = make_trainer(**still, parallel=ParallelConfig(windows_per_step=2, lane_groups=2))
    windows = [make_window(lengths=(6, 2, seed), seed=seed) for seed in range(6)]
    alone = []
    for window in windows:
        one = make_trainer(**still)
        one.train(as_batch(window, CPU))
        alone.append(one.row_nats() / np.log(2))
    for begin, end, characters in ((0, 4, 38), (4, 6, 63)):
        for first in range(begin, end, 2):
            trainer.train(*(as_batch(window, CPU) for window in windows[first : first + 2]))
        row = trainer.close_row()
        assert row["characters"] == characters
        targets = sum(window.characters for window in windows[begin:end])
        bits = sum(alone[begin:end]) / targets
        assert row["train_bits_per_character"] == pytest.approx(bits, rel=1e-6)
    window = make_window(lengths=(6, 2, 0))
    one, other = make_trainer(), make_trainer()
    one.train(as_batch(window, CPU))
    other.train(as_batch(window._replace(characters=24), CPU))
    for name, gradient in gradients(one).items():
        assert torch.equal(gradient, gradients(other)[name]), name
    in_tokens, in_bytes = one.close_row(), other.close_row()
    assert (in_tokens["characters"], in_bytes["characters"]) == (8, 24)
    ratio = in_tokens["train_bits_per_character"] / in_bytes["train_bits_per_character"]
    assert ratio == pytest.approx(3)


@pytest.mark.parametrize(
    ("rank", "ranks", "own"), [(0, 2, 1.0), (1, 2, 2.0), (0, 3, 3.0), (1, 3, 0.0), (0, 1, 3.0)]
)
def test_the_open_rows_loss_counts_once_whatever_the_number_of_ranks(rank, ranks, own):
    trainer = make_trainer()
    trainer.world = World(rank, ranks, CPU)
    trainer.restore_nats(torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert float(trainer.nats) == own


def test_state_is_carried_over_and_reset_as_the_window_says():
    trainer = make_trainer()
    trainer.train(as_batch(make_window(), CPU))
    carried, model = trainer.state, copy.deepcopy(trainer.model)
    window = make_window(reset=False, seed=1)
    window.reset[1] = True
    trainer.train(as_batch(window, CPU))
    with torch.no_grad():
        start = carried.reset(torch.tensor([False, True, False]))
        _, expected = model(torch.from_numpy(window.tokens[:, :-1]).long(), start)
    assert torch.equal(trainer.state.c, expected.c)
    assert torch.equal(trainer.state.h, expected.h)
    assert not trainer.state.c.requires_grad


def test_clipping_bounds_the_gradient_after_unscaling():
    for precision in ("fp32", "fp16"):
        trainer = make_trainer(precision, clip_norm=1e-3)
        trainer.train(as_batch(make_window(), CPU))
        norm = torch.stack([g.norm() for g in gradients(trainer).values()]).norm()
        assert norm == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("name", ["layers.0.w_h", "decoder.weight"])  # of Muon, of AdamW
def test_an_overflow_in_one_optimizers_gradient_skips_both(name, clip_norm):
    trainer = make_trainer("fp16", name="muon", clip_norm=clip_norm, loss_scale=2.0)
    trainer.train(as_batch(make_window(), CPU))  # so that there is momentum to move by
    before = copy.deepcopy(trainer.model.state_dict())
    parameter = trainer.model.get_parameter(name)
    handle = parameter.register_hook(lambda gradient: gradient.fill_(torch.inf))
    trainer.train(as_batch(make_window(seed=1), CPU))
    for key, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[key]), key
    row = trainer.close_row()
    assert row["overflows"] == 1
    assert "gradient_norm" not in row
    handle.remove()
    trainer.train(as_batch(make_window(seed=2), CPU))
    for key, value in trainer.model.state_dict().items():
        assert not torch.equal(value, before[key]), key


def test_a_loss_scale_grows_without_an_overflow_and_at_the_lowest_the_training_has_diverged():
    trainer = make_trainer("fp16", steps=100, loss_scale=4.0)
    trainer.scaler.set_growth_interval(2)
    for _ in range(4):
        trainer.train(as_batch(make_window(), CPU))
    row = trainer.close_row()
    assert (row["loss_scale"], row["overflows"]) == (16.0, 0)
    trainer = make_trainer("fp16", steps=100, loss_scale=2.0**-39)
    hook = trainer.model.decoder.bias.register_hook(lambda grad: grad.fill_(torch.inf))
    trainer.train(as_batch(make_window(), CPU))
    assert trainer.close_row()["loss_scale"] == 2.0**-40
    trainer.train(as_batch(make_window(), CPU))
    with pytest.raises(Diverged, match="at the lowest loss scale, gradients are still not finite"):
        trainer.close_row()
    hook.remove()


def test_training_learns_the_same_in_every_precision(small_split):
    ends = {}
    for precision in ("fp32", "bf16", "fp16"):
        trainer, bits = make_trainer(precision, lanes=8, steps=80, clip_norm=1.0), []
        stream = Lanes(small_split, lanes=8, window=16)
        for step in range(80):
            trainer.train(as_batch(stream[step], CPU))
            if step in (0, 59, 79):
                bits.append(trainer.close_row()["train_bits_per_character"])
        assert bits[0] > 7.5
        ends[precision] = bits[-1]
    assert ends["fp32"] < 6
    assert ends == pytest.approx(dict.fromkeys(ends, ends["fp32"]), abs=0.01)


def test_a_run_has_its_steps_or_those_of_its_epochs():
    lengths = [TrainConfig(**length) for length in ({"steps": 7}, {"epochs": 0.29}, {})]
    assert [length.total_steps(lambda epochs: round(100 * epochs)) for length in lengths] == [
        *(7, 29, 1000)
    ]


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ({"epochs": 1e308}, "train.epochs is 1e.308; it must be above zero and at most"),
        ({"epochs": 1e8}, "10,000,000,000"),
        ({"steps": 1, "epochs": 1}, "both given"),
        ({"steps": -1}, r"train\.steps"),
    ],
)
def test_a_length_that_a_run_cannot_have_is_refused(length, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**length).total_steps(lambda epochs: round(100 * epochs))


def train_noting_dropout(trainer, seed=0, windows=1):
    """Take a step; return what dropout multiplied by: of each micro-batch, [B, H]."""
    used, loss = [], type(trainer.model).loss

    def noting(*inputs, **options):
        used.append(inputs[3])
        return loss(trainer.model, *inputs, **options)

    trainer.model.loss = noting
    trainer.train(*(as_batch(make_window(seed=seed + n), CPU) for n in range(windows)))
    del trainer.model.loss
    return used


def test_masks_are_those_that_earlier_runs_drew_and_each_window_has_its_own():
    factors = []
    for rank in range(3):
        trainer = make_trainer(dropout=0.5, lanes=9)
        trainer.world, trainer.state = World(rank, 3, CPU), trainer.model.initial_state(3)
        factors += train_noting_dropout(trainer)
    whole = draw_dropout_mask(0.5, seed=0, window=0, lanes=slice(0, 9), units=8)
    assert torch.equal(torch.cat(factors), 2.0 * whole)
    trainer = make_trainer(dropout=0.4, parallel=ParallelConfig(windows_per_step=2))
    used = [each for step in range(2) for each in train_noting_dropout(trainer, 2 * step, 2)]
    assert len(used) == 4
    for window, factors in enumerate(used):
        mask = draw_dropout_mask(0.4, seed=0, window=window, lanes=slice(0, 3), units=8)
        torch.testing.assert_close(factors, mask / 0.6)


@pytest.mark.parametrize("lanes", [slice(0, 7), slice(2, 5), slice(5, 5)])
def test_the_mask_is_the_one_that_earlier_runs_drew(lanes):
    """Those drew for all lanes together, with NumPy's generator of the seed and the window."""
    whole = np.random.default_rng([3, 11]).random((7, 8)) >= 0.4
    mask = draw_dropout_mask(0.4, seed=3, window=11, lanes=lanes, units=8)
    assert mask.tolist() == whole[lanes].tolist()


def test_the_decoder_learns_nothing_from_units_that_are_dropped_nor_a_rank_without_lanes():
    trainer = make_trainer(dropout=0.8)
    (factors,) = train_noting_dropout(trainer)
    unseen = factors.sum(0) == 0  # in all three lanes
    assert unseen.any()
    gradient = trainer.model.decoder.weight.grad
    assert not gradient[:, unseen].any()
    assert gradient[:, ~unseen].any(0).all()
    trainer = make_trainer(dropout=0.5)
    trainer.world = World(0, 4, CPU)
    trainer.load_lanes(trainer.state)
    window = make_window()
    none = {name: getattr(window, name)[:0] for name in ("tokens", "lengths", "reset")}
    trainer.train(as_batch(window._replace(**none), CPU))
    assert float(trainer.nats) == 0


def test_lane_groups_hide_the_units_that_one_group_hides():
    results = []
    for groups in (1, 3):
        trainer = make_trainer(dropout=0.5, parallel=ParallelConfig(lane_groups=groups))
        masks = torch.cat(train_noting_dropout(trainer))
        results.append(gradients(trainer))
        assert len({tuple(mask) for mask in masks.tolist()}) == 3  # each lane has its own
    for name, gradient in results[0].items():
        # The sums of three lanes, in another order; fp32.
        torch.testing.assert_close(results[1][name], gradient, rtol=1e-5, atol=1e-7, msg=name)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("clip_norm", [None, 1e-3])
def test_a_row_has_the_norm_of_the_last_gradient_before_clipping(precision, clip_norm):
    trainer = make_trainer(precision, clip_norm=clip_norm)
    exact = make_trainer(precision, name="sgd", lr=1e-9)
    for each in (trainer, exact):
        each.train(as_batch(make_window(), CPU))
    expected = torch.cat([p.grad.flatten() for p in exact.model.parameters()]).norm()
    row = trainer.close_row()
    assert row["gradient_norm"] == pytest.approx(float(expected), rel=1e-5)
    scale = {"loss_scale": 2.0**16, "overflows": 0} if precision == "fp16" else {}
    assert {key: row[key] for key in ("loss_scale", "overflows") if key in row} == scale
