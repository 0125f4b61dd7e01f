"""Batches made ahead are the windows of the lanes, in order, from any step on."""

import threading
import time
from concurrent.futures import wait
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from data_utils.lanes import Lanes, WindowBatch
from model.state import IGNORED
from training.parallel import batch
from training.parallel.batch import Prefetcher, as_batch

CPU = torch.device("cpu")


def test_a_batch_is_a_window_and_its_padding_does_not_count():
    tokens = np.arange(12, dtype=np.uint8).reshape(2, 6)
    window = WindowBatch(tokens, np.array([5, 2]), np.array([True, False]), 7, 9, 0.5)
    batch = as_batch(window, CPU)
    assert batch.inputs.tolist() == [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10]]
    assert batch.targets.tolist() == [[1, 2, 3, 4, 5], [7, 8, *[IGNORED] * 3]]
    assert batch.reset.tolist() == [True, False]
    assert (batch.transitions, batch.characters, batch.active_fraction) == (7, 9, 0.5)


def assert_same_batch(batch, window):
    for actual, expected in zip(batch[:3], as_batch(window, CPU)[:3], strict=True):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("first", [0, 3])
def test_batches_come_in_order_from_the_step_asked_for(small_split, first, monkeypatch):
    """And a GPU that the run does not use may be broken."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: pytest.fail("asked for a GPU"))
    lanes = Lanes(small_split, lanes=4, window=16)
    with Prefetcher(lanes, CPU, first, 99) as prefetcher:
        for step in range(first, first + 5):
            assert_same_batch(prefetcher.next(), lanes[step])


def test_other_lanes_are_read_from_the_next_batch_on(small_split):
    """The batch that was made ahead, of the earlier lanes, is replaced."""
    lanes, others = (
        Lanes(small_split, lanes=4, window=16, own=own) for own in (slice(3), slice(1, 3))
    )
    with Prefetcher(lanes, CPU, 0, 99) as prefetcher:
        prefetcher.next()
        prefetcher.assign(slice(1, 3))
        for step in (1, 2):
            assert_same_batch(prefetcher.next(), others[step])


class Noted:
    """Lanes that note which windows they were asked for, each of which takes a while."""

    def __init__(self, lanes, seconds=0.0):
        self.lanes, self.seconds, self.indices = lanes, seconds, []

    def assign(self, own):
        self.lanes.assign(own)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        self.indices.append(index)
        return self.lanes[index]


def test_the_next_batch_is_made_while_this_step_runs(small_split):
    lanes = Noted(Lanes(small_split, lanes=4, window=16), 0.2)
    with Prefetcher(lanes, CPU, 0, 99) as prefetcher:
        prefetcher.next()
        first = prefetcher.waited
        for made in ([0, 1], [0, 1, 2]):
            wait([prefetcher.coming], timeout=60)  # a step, longer than the making of a batch
            assert lanes.indices == made
            prefetcher.next()
    assert first > 0.05
    assert prefetcher.waited - first < first / 2  # neither of the two was waited for


@pytest.mark.parametrize("first", [0, 3])
def test_no_window_beyond_the_last_is_made(small_split, first):
    """It may be the first one of a new epoch."""
    lanes = Noted(Lanes(small_split, lanes=4, window=16))
    with Prefetcher(lanes, CPU, first, 3) as prefetcher:
        for _ in range(first, 3):
            prefetcher.next()
        prefetcher.assign(slice(0, 2))
    assert lanes.indices == list(range(first, 3))


def test_an_error_in_the_thread_is_raised_by_the_step_and_no_thread_outlives_the_feed(small_split):
    class Broken:
        def __getitem__(self, index):
            raise OSError(5, "Input/output error")

    with (
        Prefetcher(Broken(), CPU, 0, 9) as prefetcher,
        pytest.raises(OSError, match="Input/output"),
    ):
        prefetcher.next()
    with Prefetcher(Lanes(small_split, lanes=4, window=16), CPU, 0, 9) as prefetcher:
        prefetcher.next()
    assert not [t for t in prefetcher.thread._threads if t.is_alive()]


def test_the_thread_uses_the_gpu_of_its_rank(small_split, monkeypatch):
    """CUDA gives each new thread GPU 0: every rank would open a context there, of 0.5 GB."""
    chosen = []

    def set_device(device):
        chosen.append((device, threading.current_thread().name))

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    for stand_in in ("Stream", "stream"):
        monkeypatch.setattr(torch.cuda, stand_in, lambda device: nullcontext())
    monkeypatch.setattr(batch, "as_batch", lambda window, device: window)
    with Prefetcher(Lanes(small_split, lanes=4, window=16), torch.device("cuda", 3), 0, 1) as feed:
        feed.coming.result()
    assert [device for device, _ in chosen] == [torch.device("cuda", 3)]
    assert chosen[0][1].startswith("feed")
