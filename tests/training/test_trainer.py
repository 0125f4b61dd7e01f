"""A training step against the same computed by hand; padding, clipping and loss scaling."""

import copy
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from data_utils.lanes import Lanes
from model.errors import InputError
from model.state import State
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


def test_a_row_is_the_mean_over_its_steps_their_windows_and_micro_batches():
    still = {"name": "sgd", "lr": 1e-12}  # the weights stay
    trainer = make_trainer(**still, parallel=ParallelConfig(windows_per_step=2, lane_groups=2))
    windows = [make_window(lengths=(6, 2, seed), seed=seed) for seed in range(6)]
    alone = []
    for window in windows:
        one = make_trainer(**still)
        one.train(as_batch(window, CPU))
        alone.append(one.row_nats())
    for begin, end, characters in ((0, 4, 38), (4, 6, 63)):
        for first in range(begin, end, 2):
            trainer.train(*(as_batch(window, CPU) for window in windows[first : first + 2]))
        row = trainer.close_row()
        assert row["characters"] == characters
        bits = sum(alone[begin:end]) / np.log(2)
        counted = sum(window.characters for window in windows[begin:end])
        assert row["train_bits_per_character"] == pytest.approx(bits / counted, rel=1e-6)


def test_a_line_is_of_the_steps_since_the_line_before_and_leaves_the_row_alone():
    still = {"name": "sgd", "lr": 1e-12}  # the weights stay
    trainer, alone = make_trainer(**still), []
    for seed in range(3):
        window = make_window(lengths=(6, 2, seed), seed=seed)
        trainer.train(as_batch(window, CPU))
        one = make_trainer(**still)
        one.train(as_batch(window, CPU))
        alone.append(one.close_row()["train_bits_per_character"] * window.characters)
        if seed != 1:
            told = trainer.close_line()["train_bits_per_character"]
            counted, bits = (8, alone[:1]) if seed == 0 else (9 + 10, alone[1:])
            assert told == pytest.approx(sum(bits) / counted, rel=1e-6)
    row = trainer.close_row()
    assert row["train_bits_per_character"] == pytest.approx(sum(alone) / 27, rel=1e-6)


class Asking(World):
    """A world that counts how often ranks are asked for something."""

    asked = 0

    def gather(self, tensor):
        object.__setattr__(self, "asked", self.asked + 1)
        return super().gather(tensor)


@pytest.mark.parametrize(("name", "asked"), [("adam", 0), ("sgd", 0), ("muon", 1)])
def test_ranks_agree_on_a_dtype_for_muon_alone(name, asked):
    world = Asking(0, 1, CPU)
    make_trainer("bf16", world=world, name=name)
    assert world.asked == asked


def test_the_rate_falls_with_the_lanes_that_read():
    trainer = make_trainer(name="sgd", clip_norm=None, lr=0.25)
    before = [p.detach().double() for p in trainer.model.parameters()]
    trainer.train(as_batch(make_window(lengths=(6, 3, 0), active_fraction=2 / 3), CPU))
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        expected = old - 0.25 * 2 / 3 * new.grad.double()
        torch.testing.assert_close(new.detach().double(), expected, rtol=1e-6, atol=1e-7)
    assert trainer.close_row()["learning_rate"] == trainer.schedule.rate(0)  # that of the schedule


def test_a_token_weighs_the_same_in_the_momentum_however_many_lanes_read():
    trainer = make_trainer(name="sgd", clip_norm=None, lr=1e-12)  # the weights stay
    reference = copy.deepcopy(trainer.model)
    windows = [make_window(), make_window(lengths=(6, 0, 0), seed=1, active_fraction=1 / 3)]
    for window in windows:
        trainer.train(as_batch(window, CPU))
    full, few = (nats_by_hand(reference, window) for window in windows)
    (full.sum() / 18 * 0.9 + few[0].sum() / 18).backward()
    (optimizer,) = trainer.optimizers
    for weight, by_hand in zip(trainer.model.parameters(), reference.parameters(), strict=True):
        momentum = optimizer.state[weight]["momentum_buffer"]
        torch.testing.assert_close(momentum, by_hand.grad, rtol=1e-5, atol=1e-7)


def test_the_rate_of_a_step_on_several_windows_is_their_mean():
    trainer = make_trainer(name="sgd", clip_norm=None, lr=0.25)
    trainer.train(*(as_batch(make_window(active_fraction=part), CPU) for part in (1.0, 1 / 3)))
    (group,) = trainer.optimizers[0].param_groups
    assert group["lr"] == pytest.approx(trainer.schedule.rate(0) * 2 / 3)


@pytest.mark.parametrize(
    ("rank", "ranks", "own"), [(0, 2, 1.0), (1, 2, 2.0), (0, 3, 3.0), (1, 3, 0.0), (0, 1, 3.0)]
)
def test_the_open_rows_loss_counts_once_whatever_the_number_of_ranks(rank, ranks, own):
    trainer = make_trainer()
    trainer.world = World(rank, ranks, CPU)
    trainer.restore_nats(torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert float(trainer.nats) == own


def test_padding_does_not_matter():
    one, other = make_trainer(), make_trainer()
    window = make_window(lengths=(6, 2, 0))
    noisy = window._replace(tokens=window.tokens.copy())
    noisy.tokens[1, 3:] = 77
    one.train(as_batch(window, CPU))
    other.train(as_batch(noisy, CPU))
    for name, gradient in gradients(one).items():
        assert torch.equal(gradient, gradients(other)[name]), name


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


def test_fp16_skips_steps_that_overflow_and_lowers_the_scale():
    trainer = make_trainer("fp16", clip_norm=1.0)
    trainer.scaler.load_state_dict(trainer.scaler.state_dict() | {"scale": 2.0**40})
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train(as_batch(make_window(), CPU))
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert trainer.scaler.get_scale() == 2.0**39
    trainer.scaler.load_state_dict(trainer.scaler.state_dict() | {"scale": 2.0**10})
    trainer.train(as_batch(make_window(), CPU))
    assert not torch.equal(trainer.model.decoder.weight, before["decoder.weight"])


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
    assert trainer.close_row()["overflows"] == 1
    handle.remove()
    trainer.train(as_batch(make_window(seed=2), CPU))
    for key, value in trainer.model.state_dict().items():
        assert not torch.equal(value, before[key]), key


def test_rows_in_fp16_tell_the_loss_scale_and_the_steps_that_overflowed():
    trainer = make_trainer("fp16", steps=100, loss_scale=2.0**40, clip_norm=1.0)
    skipped = 0
    for _ in range(40):
        before = trainer.model.decoder.weight.clone()
        trainer.train(as_batch(make_window(), CPU))
        skipped += torch.equal(trainer.model.decoder.weight, before)
    assert 5 < skipped < 35
    row = trainer.close_row()
    assert row["overflows"] == skipped
    assert row["loss_scale"] == 2.0 ** (40 - skipped)
    trainer.train(as_batch(make_window(), CPU))
    assert trainer.close_row()["overflows"] == 0


def test_a_loss_scale_that_grows_is_no_overflow():
    trainer = make_trainer("fp16", steps=100, loss_scale=4.0)
    trainer.scaler.set_growth_interval(2)
    for _ in range(4):
        trainer.train(as_batch(make_window(), CPU))
    row = trainer.close_row()
    assert (row["loss_scale"], row["overflows"]) == (16.0, 0)


def test_a_training_whose_gradients_overflow_at_every_scale_has_diverged():
    trainer = make_trainer("fp16", steps=100, loss_scale=2.0**-39)
    hook = trainer.model.decoder.bias.register_hook(lambda grad: grad.fill_(torch.inf))
    trainer.train(as_batch(make_window(), CPU))
    assert trainer.close_row()["loss_scale"] == 2.0**-40
    trainer.train(as_batch(make_window(), CPU))
    with pytest.raises(Diverged, match="at the lowest loss scale, gradients are still not finite"):
        trainer.close_row()
    hook.remove()


@pytest.mark.parametrize(
    ("epochs", "message"),
    [(1e308, "train.epochs is 1e.308; it must be above zero and at most"), (1e8, "10,000,000,000")],
)
def test_more_steps_than_a_run_may_have_are_refused(epochs, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(epochs=epochs).total_steps(100)
    assert TrainConfig(epochs=2).total_steps(100) == 200


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_rows_without_a_loss_scale_tell_of_none(precision):
    trainer = make_trainer(precision)
    trainer.train(as_batch(make_window(), CPU))
    assert not {"loss_scale", "overflows"} & set(trainer.close_row())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_learns_what_fp32_learns(precision, small_split):
    def final_bits(name):
        trainer = make_trainer(name, lanes=8, steps=80, clip_norm=1.0)
        stream = Lanes(small_split, lanes=8, window=16)
        for step in range(80):
            trainer.train(as_batch(stream[step], CPU))
            if step == 59:
                trainer.close_row()
        return trainer.close_row()["train_bits_per_character"]

    assert final_bits(precision) == pytest.approx(final_bits("fp32"), abs=0.01)


def test_training_learns(small_split):
    trainer = make_trainer(lanes=8, steps=60)
    stream = Lanes(small_split, lanes=8, window=16)
    for step in range(60):
        trainer.train(as_batch(stream[step], CPU))
        if step == 0:
            first = trainer.close_row()["train_bits_per_character"]
    assert first > 7.5
    assert trainer.close_row()["train_bits_per_character"] < 6


def test_a_loss_that_is_not_finite_stops_the_run():
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.decoder.weight.fill_(torch.nan)
    trainer.train(as_batch(make_window(), CPU))
    with pytest.raises(InputError, match="not finite at step 1"):
        trainer.close_row()


def test_length_of_a_run():
    assert TrainConfig(steps=7).total_steps(100) == 7
    assert TrainConfig(epochs=0.5).total_steps(100) == 50
    assert TrainConfig(epochs=0.001).total_steps(100) == 1
    assert TrainConfig(epochs=0.29).total_steps(100) == 29  # 28.999999999999996 in floats
    assert TrainConfig().total_steps(100) == 1000
    with pytest.raises(InputError, match="exclude"):
        TrainConfig(steps=1, epochs=1)
    with pytest.raises(InputError, match=r"train\.steps"):
        TrainConfig(steps=-1)


@pytest.mark.parametrize(("rank", "own"), [(0, [0]), (1, [1, 2]), (2, [3, 4])])
def test_a_rank_goes_on_from_its_own_lanes(rank, own):
    trainer = make_trainer(lanes=5)
    trainer.world = World(rank, 3, CPU)
    numbers = torch.arange(5.0).view(1, 5, 1).expand(1, 5, 8)
    trainer.load_lanes(State(numbers, numbers))
    assert trainer.state.c[0, :, 0].tolist() == own
    assert trainer.own_fraction == len(own) / 5


def train_noting_dropout(trainer, seed=0, windows=1):
    """Take a step; return what dropout multiplied by: of each micro-batch, [B, H]."""
    used = []
    hook = trainer.objective.register_forward_pre_hook(lambda _, given: used.append(given[3]))
    trainer.train(*(as_batch(make_window(seed=seed + n), CPU) for n in range(windows)))
    hook.remove()
    return used


def test_a_mask_keeps_its_part_of_the_units_and_follows_from_seed_and_window():
    def draw(seed, window):
        return draw_dropout_mask(0.4, seed=seed, window=window, lanes=slice(0, 500), units=8)

    first = draw(0, 0)
    # 4,000 draws: the part kept is 0.6 within four standard errors
    assert first.float().mean().item() == pytest.approx(0.6, abs=0.032)
    assert torch.equal(draw(0, 0), first)
    assert not torch.equal(draw(0, 1), first)
    assert not torch.equal(draw(1, 0), first)


def test_ranks_together_draw_the_mask_of_one_process():
    shares = []
    for rank in range(3):
        trainer = make_trainer(dropout=0.5, lanes=9)
        trainer.world, trainer.state = World(rank, 3, CPU), trainer.model.initial_state(3)
        shares += train_noting_dropout(trainer)
    whole = draw_dropout_mask(0.5, seed=0, window=0, lanes=slice(0, 9), units=8)
    assert torch.equal(torch.cat(shares), 2.0 * whole)


def test_a_rank_draws_only_the_mask_of_its_own_lanes():
    """All before them would be numbers for a day, and for terabytes."""
    far = slice(10**9, 10**9 + 3)
    assert draw_dropout_mask(0.5, seed=0, window=0, lanes=far, units=1024).shape == (3, 1024)


@pytest.mark.parametrize("share", [slice(0, 7), slice(2, 5), slice(5, 5)])
def test_the_mask_is_the_one_that_earlier_runs_drew(share):
    """For all lanes at once, with the generator that numpy gives for the seed and the window."""
    whole = np.random.default_rng([3, 11]).random((7, 8)) >= 0.4
    kept = draw_dropout_mask(0.4, seed=3, window=11, lanes=share, units=8)
    assert kept.tolist() == whole[share].tolist()


def test_the_decoder_learns_nothing_from_units_that_are_dropped():
    trainer = make_trainer(dropout=0.8)
    (factors,) = train_noting_dropout(trainer)
    unseen = factors.sum(0) == 0  # in all three lanes
    assert unseen.any()
    gradient = trainer.model.decoder.weight.grad
    assert not gradient[:, unseen].any()
    assert gradient[:, ~unseen].any(0).all()


def test_lane_groups_hide_the_units_that_one_group_hides():
    found = []
    for groups in (1, 3):
        trainer = make_trainer(dropout=0.5, parallel=ParallelConfig(lane_groups=groups))
        masks = torch.cat(train_noting_dropout(trainer))
        found.append(gradients(trainer))
        assert len({tuple(mask) for mask in masks.tolist()}) == 3  # each lane has its own
    for name, gradient in found[0].items():
        # The sums of three lanes, in another order; fp32.
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-7, msg=name)


def test_each_window_of_a_step_has_a_mask_of_its_own():
    trainer = make_trainer(dropout=0.4, parallel=ParallelConfig(windows_per_step=2))
    used = [each for step in range(2) for each in train_noting_dropout(trainer, 2 * step, 2)]
    assert len(used) == 4
    for window, factors in enumerate(used):
        mask = draw_dropout_mask(0.4, seed=0, window=window, lanes=slice(0, 3), units=8)
        torch.testing.assert_close(factors, mask / 0.6)


def test_more_micro_batches_than_lanes_are_one_for_each_lane():
    trainer = make_trainer(dropout=0.5, parallel=ParallelConfig(lane_groups=5))
    assert [len(mask) for mask in train_noting_dropout(trainer)] == [1, 1, 1]


def test_a_rank_without_lanes_hides_no_units():
    trainer = make_trainer(dropout=0.5)
    trainer.world = World(0, 4, CPU)
    trainer.load_lanes(trainer.state)
    window = make_window()
    none = {name: getattr(window, name)[:0] for name in ("tokens", "lengths", "reset")}
    trainer.train(as_batch(window._replace(**none), CPU))
    assert float(trainer.nats) == 0


def test_gradients_are_exchanged_during_the_last_backward_pass_of_a_step(monkeypatch):
    trainer, said = make_trainer(parallel=ParallelConfig(windows_per_step=2, lane_groups=3)), []

    @contextmanager
    def note():
        said.append("exchange")
        yield

    monkeypatch.setattr(trainer.exchange, "during_backward", note)
    trainer.objective.register_forward_hook(lambda *_: said.append("forward"))
    trainer.train(*(as_batch(make_window(seed=seed), CPU) for seed in range(2)))
    assert said == [*["forward"] * 6, "exchange"]


def test_the_step_is_per_token_and_the_row_per_byte_of_text():
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


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("clip_norm", [None, 1e-3])
def test_a_row_has_the_norm_of_the_last_gradient_before_clipping(precision, clip_norm):
    trainer = make_trainer(precision, clip_norm=clip_norm)
    exact = make_trainer(precision, name="sgd", lr=1e-9)
    for each in (trainer, exact):
        each.train(as_batch(make_window(), CPU))
    expected = torch.cat([p.grad.flatten() for p in exact.model.parameters()]).norm()
    assert trainer.close_row()["gradient_norm"] == pytest.approx(float(expected), rel=1e-5)


def test_a_row_whose_last_step_overflowed_has_no_norm():
    trainer = make_trainer("fp16", loss_scale=2.0**40)
    trainer.train(as_batch(make_window(), CPU))
    row = trainer.close_row()
    assert row["overflows"] == 1
    assert "gradient_norm" not in row
