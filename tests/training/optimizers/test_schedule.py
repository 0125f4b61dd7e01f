"""Schedules of the learning rate, against hand-computed values."""

import pytest

from model.errors import InputError
from training.optimizers.optim import MOST_STEPS, OptimConfig, Schedule


def planned(steps, **shape):
    return OptimConfig(lr=1.0, **shape).schedule(steps, lanes=1)


def rates_of(steps, **shape):
    schedule = planned(steps, **shape)
    return [schedule.rate(step) for step in range(schedule.last_step)]


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("constant", [1.0] * 4),
    ],
)
def test_decay_without_warmup(decay, expected):
    assert rates_of(4, decay=decay) == pytest.approx(expected)


def test_warmup_rises_to_the_peak_then_decays():
    rates = rates_of(10, warmup=0.4)
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:] == pytest.approx([1 - k / 6 for k in range(6)])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_any_number_of_steps_is_legal(steps):
    assert all(0 < rate <= 1 for rate in rates_of(steps, warmup=0.5))


def test_the_rate_holds_between_warmup_and_decay():
    rates = rates_of(10, warmup=0.2, hold=0.4)
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_decay_steps_are_counted_from_the_first_step_of_the_warmup():
    rates = rates_of(10, warmup=0.2, decay_steps=12)
    assert rates == pytest.approx([1 / 3, 2 / 3, *(1 - k / 10 for k in range(8))])


@pytest.mark.parametrize("decay", ["constant", "linear"])
def test_a_cooldown_falls_from_where_the_schedule_is_to_zero(decay):
    plan = rates_of(10, decay=decay)
    schedule = planned(10, decay=decay, cooldown_steps=4, cooldown_from=3)
    assert schedule.last_step == 7
    fall = [plan[3] * part for part in (0.75, 0.5, 0.25, 0)]
    assert [schedule.rate(step) for step in range(8)] == pytest.approx([*plan[:4], *fall])


def test_a_cooldown_without_a_start_covers_the_last_steps():
    assert rates_of(5, decay="constant", cooldown_steps=2) == [1, 1, 1, 1, 0.5]


@pytest.mark.parametrize("shape", [{"decay": "linear"}, {"cooldown_steps": 1}])
def test_the_rate_stays_at_zero_after_the_end(shape):
    schedule = planned(2, hold=0.5, **shape)
    assert [schedule.rate(step) for step in (1, 2, 3)] == [1, 0, 0]


def test_the_last_rate_of_the_longest_run_is_not_zero():
    schedule = Schedule(peak=1e-3, steps=MOST_STEPS)
    assert 0 < schedule.rate(MOST_STEPS - 1) < 1e-11
    assert schedule.rate(MOST_STEPS) == 0


def test_a_rate_that_rounds_to_zero_is_refused():
    with pytest.raises(InputError, match=r"^optim\.lr is .*: so low that the last step"):
        Schedule(peak=5e-324, steps=10**6)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"cooldown_steps": 11}, "cooldown_steps is 11, more than the 10 steps"),
        ({"cooldown_steps": 20, "warmup": 0.2}, "cooldown_steps is 20"),
        ({"cooldown_steps": 4, "cooldown_from": 10}, "begin at step 10, where .* is already zero"),
        ({"decay_steps": 9}, "decay_steps is 9, of 10 steps"),
        ({"decay_steps": 2, "warmup": 0.5}, "decay_steps is 2"),
    ],
)
def test_a_schedule_with_steps_that_learn_nothing_is_refused(shape, message):
    with pytest.raises(InputError, match=message):
        planned(10, **shape)
    rest = {key: value for key, value in shape.items() if not key.startswith("cooldown")}
    assert all(rate > 0 for rate in rates_of(10, **rest, decay="constant"))
