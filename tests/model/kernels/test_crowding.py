"""Other programs on our cores are noticed, and waiting threads leave the cores to them."""

import threading
from functools import partial

import pytest
import torch

from model.kernels import crowding
from model.kernels.compilation import window_library
from model.kernels.window import RecurrenceInput, RecurrentWeights
from model.layers.recurrence import recur
from model.state import State


class RecordedLibrary:
    """Stands in for the compiled library and records its calls."""

    def __init__(self):
        self.asked = []

    def mlstm_keep_idle_team(self, keep, threads):
        self.asked.append((keep.value, threads.value))

    def mlstm_take_short_slices(self, thread):
        assert thread.value == threading.get_native_id()
        self.asked.append("short")


class MovedWatch(crowding.Watch):
    """A watch of this thread alone, with a clock and a queue that the test moves."""

    def __init__(self, monkeypatch, threads, library, cores=2):
        self.now = 0.0
        self.file = threads / str(threading.get_native_id()) / "schedstat"
        self.file.parent.mkdir()
        self.file.write_text("1 0 1")
        monkeypatch.setattr(crowding, "THREADS", threads)
        monkeypatch.setattr(crowding, "monotonic", lambda: self.now)
        monkeypatch.setattr(crowding, "window_library", lambda: library)
        monkeypatch.setattr(crowding, "affine_cores", lambda: cores)
        monkeypatch.setattr(crowding, "owns_process", lambda: True)
        super().__init__()

    def passes(self, seconds, queued):
        self.now += seconds
        before = int(self.file.read_text().split()[1])
        self.file.write_text(f"1 {before + round(queued * 1e9)} 1")
        self.look()
        return self.crowded


@pytest.fixture
def moved_watch(monkeypatch, tmp_path):
    return partial(MovedWatch, monkeypatch, tmp_path)


def test_crowding_is_noticed_and_forgotten(moved_watch):
    torch.set_num_threads(2)
    library = RecordedLibrary()
    watch = moved_watch(library)
    assert not watch.passes(1.0, 0.01)
    assert not watch.passes(0.1, 0.1)  # too soon after the last look
    assert watch.passes(1.0, 0.5)
    assert watch.passes(1.0, 0.08)  # less than made it one
    assert not watch.passes(1.0, 0.01)
    assert library.asked == [(True, 2), "short", "short", (False, 2)]


@pytest.mark.parametrize(
    ("cores", "threads", "team"),
    [(4, 4, 2), (4, 2, 4), (4, 5, None), (4, 6, None), (1, 4, None), (100, 2, None)],
)
def test_an_idle_team_is_kept_only_to_fill_cores(moved_watch, cores, threads, team):
    library = RecordedLibrary()
    watch = moved_watch(library, cores)
    assert not watch.passes(1.0, 0.9)  # a single thread never waits
    assert library.asked == []
    torch.set_num_threads(threads)
    assert watch.passes(1.0, 0.5)
    assert library.asked == [*([] if team is None else [(True, team)]), "short"]
    assert not watch.passes(1.0, 0.0)
    assert library.asked[-1][0] is False  # let go, whatever the number of threads is by then


def test_every_window_on_a_cpu_looks(monkeypatch):
    looked = []
    monkeypatch.setattr(crowding.watch, "look", lambda: looked.append(True))
    if window_library() is None:
        pytest.skip("no compiler")
    weights = RecurrentWeights(torch.zeros(2, 2), torch.zeros(8, 2), torch.zeros(8))
    state = State(torch.zeros(1, 2), torch.zeros(1, 2))
    recur("auto", RecurrenceInput(torch.zeros(3, 1, 10), state, weights))
    assert looked == [True]
