"""When a run ends, evaluates and saves: planned in its text, whatever the lanes and the ranks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.options import RunConfig
from data_utils.lanes import TextClock
from mlstm_sentiment.errors import InputError


def planned(windows, windows_per_step=1, text=1e6, **sections):
    run = RunConfig()
    changed = {name: replace(getattr(run, name), **keys) for name, keys in sections.items()}
    return replace(run, **changed).plan(TextClock(windows, windows_per_step, text))


@given(
    windows=st.integers(1, 300),
    windows_per_step=st.integers(1, 5),
    epochs=st.floats(0.1, 4),
    every=st.floats(1e4, 2e6),
)
def test_an_interval_in_characters_ends_where_so_much_text_was_read(
    windows, windows_per_step, epochs, every
):
    """Each as soon as so much text was read, to a step; and at the end of the run."""
    run = planned(
        windows, windows_per_step, train={"epochs": epochs}, evaluate={"every_characters": every}
    )
    due = [step for step in range(1, run.last_step + 1) if run.is_due(run.evaluate, step)]
    assert due[-1] == run.last_step
    read = run.clock.characters
    for step in range(1, run.last_step):
        assert (step in due) == (read(step) // every > read(step - 1) // every)
    if every > read(1):  # else every step is due, and counted once
        assert run.count(run.evaluate) == len(due)
    saving = replace(run, checkpoint=run.evaluate)
    for step in (1, run.last_step // 2, run.last_step):
        twice = run.clock.characters(step - 1) // every > 1 if step else False
        assert saving.has_saved(step) is (twice or step >= run.last_step)


def test_intervals_in_steps_their_defaults_and_fractions_of_the_text():
    run = planned(100, train={"steps": 1000}, checkpoint={"every_steps": 300})
    due = [step for step in range(1, 1001) if run.is_due(run.checkpoint, step)]
    assert due == [300, 600, 900, 1000]
    assert (run.count(run.checkpoint), run.count(run.evaluate)) == (4, 5)
    for windows in (100, 1000):
        run = planned(windows, train={"epochs": 2}, optim={"cooldown": 0.25})
        assert run.steps == run.last_step == 2 * windows
        assert run.clock.epochs(run.cooldown.start) == pytest.approx(1.5)
    runs = [
        planned(windows, train={"epochs": 1}, evaluate={"every_characters": 5e4})
        for windows in (40, 400, 4000)
    ]
    counts = {run.count(run.evaluate) for run in runs}
    assert counts == {20}


@pytest.mark.parametrize("section", ["evaluate", "checkpoint"])
def test_an_interval_is_given_once(section):
    both = {"every_steps": 3, "every_characters": 1e6}
    with pytest.raises(InputError, match=rf"^{section}\.every_steps and {section}\.every_char"):
        planned(10, **{section: both})
