"""The sentences of the glossary about runs, each quoted where it is checked."""

import numpy as np
import pytest
import torch

from data_utils.lanes import DataConfig, lanes_of
from tests.support.runs import ROOT
from tests.support.trainers import CPU, make_trainer, make_window
from training.judgement import Baselines
from training.parallel.batch import as_batch
from training.parallel.exchange import ParallelConfig

GLOSSARY = " ".join((ROOT / "docs/glossary.md").read_text().split())


@pytest.fixture
def quoted():
    """Assert that the glossary has a sentence."""

    def check(sentence):
        assert sentence in GLOSSARY

    return check


def windows_of(split, seed=0, **config):
    settings = DataConfig(window=16, shuffle="even", **config)
    return lanes_of(split, settings, 4, seed, slice(None))


def test_a_lane_is_a_row_of_the_batch_and_continues_its_text(small_split, quoted):
    quoted("Each lane processes one window of its text after the other")
    quoted("The number of lanes is the batch size.")
    quoted("The tokens that a lane processes at a time (`data.window`).")
    windows = windows_of(small_split)
    before = windows[0]
    assert before.tokens.shape == (4, 16 + 1)  # each predicts the next one
    for number in range(1, 10):
        window = windows[number]
        assert not window.reset.any()
        np.testing.assert_array_equal(window.tokens[:, 0], before.tokens[:, -1])
        before = window


def test_the_state_is_carried_over_to_the_next_window(quoted):
    quoted("carries its state over to the next")
    carrying, fresh = make_trainer(), make_trainer()
    for trainer, reset in ((carrying, False), (fresh, True)):
        trainer.train(as_batch(make_window(), CPU))
        trainer.train(as_batch(make_window(reset=reset, seed=1), CPU))
    assert not torch.equal(carrying.state.c, fresh.state.c)


@pytest.mark.parametrize("count", [1, 3])
def test_a_step_has_its_windows(count, quoted):
    quoted("A step has one window, or `parallel.windows_per_step`.")
    trainer = make_trainer(parallel=ParallelConfig(windows_per_step=count))
    trainer.train(*(as_batch(make_window(seed=seed), CPU) for seed in range(count)))
    assert (trainer.progress.step, trainer.window) == (1, count)


def test_a_lane_processes_a_shard_from_beginning_to_end(small_split, quoted):
    quoted("A part of the training text that one lane processes from beginning to end.")
    windows = windows_of(small_split, shards=8)
    read = {lane: [] for lane in range(4)}
    shards = dict.fromkeys(range(4), 0)
    for number in range(windows.windows_of(0)):
        window = windows[number]
        for lane in range(4):
            if window.reset[lane]:
                shards[lane] += 1
                read[lane].append([])
            read[lane][-1].append(window.tokens[lane, : window.lengths[lane] + 1])
    assert set(shards.values()) == {2}
    text = b"".join(
        bytes(piece[bool(index) :])
        for lane in range(4)
        for shard in read[lane]
        for index, piece in enumerate(shard)
    )
    assert sorted(text) == sorted(bytes(small_split.tokens))


def test_within_one_epoch_the_seed_changes_no_text(small_split, quoted):
    quoted(
        "Within one epoch, the seed changes only the initial weights and dropout: all runs process"
    )
    quoted("the same text in the same order.")
    one, other = (windows_of(small_split, seed) for seed in (0, 1))
    count = one.windows_of(0)
    for number in range(count):
        np.testing.assert_array_equal(one[number].tokens, other[number].tokens)
    assert any((one[count + n].tokens != other[count + n].tokens).any() for n in range(3))


def test_weights_stay_in_fp32(quoted):
    quoted("The weights themselves stay in fp32.")
    trainer = make_trainer(precision="bf16")
    trainer.train(as_batch(make_window(), CPU))
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


def test_without_a_model_a_byte_costs_8_bits(quoted):
    quoted("Without a model it is 8.")
    assert Baselines(unigrams=4.5).uniform == 8
