"""Processes that share work: how many, and what Ctrl-C is to them."""

import os
import signal

from data_utils.processes import spread, usable_cores


def test_ctrl_c_is_left_to_the_process_that_waits():
    before = signal.getsignal(signal.SIGINT)
    assert list(spread(signal.getsignal, [signal.SIGINT] * 3, workers=2)) == [signal.SIG_IGN] * 3
    assert list(spread(signal.getsignal, [signal.SIGINT], workers=1)) == [before]


def test_cores_are_counted_where_the_system_does_not_say_which_are_ours(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
