"""The first signal is a request, the second one is final."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from training.runs.signals import StopRequest


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 0),
        (signal.SIGINT, 130),
        (signal.SIGHUP, 129),
        (signal.SIGUSR1, 75),
        (signal.SIGUSR2, 75),
        (signal.SIGXCPU, 75),
    ],
)
def test_a_signal_is_noted_and_names_the_exit_code(number, code):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.requested
        for _ in range(2):  # a launcher forwards what a terminal sent to all
            os.kill(os.getpid(), number)
            assert stop.requested
            assert stop.exit_code == code
    assert signal.getsignal(number) == before


def test_who_stops_with_a_peer_or_at_a_time_limit_asks_to_be_started_again(monkeypatch):
    with StopRequest() as stop:
        assert stop.exit_code == os.EX_TEMPFAIL
    monkeypatch.setattr("training.runs.signals.ECHO_SECONDS", -1.0)
    with StopRequest() as stop:
        for number in (signal.SIGUSR1, signal.SIGXCPU, signal.SIGXCPU):
            os.kill(os.getpid(), number)
        assert stop.exit_code == os.EX_TEMPFAIL


def test_a_rank_whose_launcher_has_ended_stops(monkeypatch):
    for launched, stops in (({}, False), ({"TORCHELASTIC_RUN_ID": "one"}, True)):
        monkeypatch.setattr(os, "environ", {**os.environ, **launched})
        with monkeypatch.context() as context:
            stop = StopRequest()
            assert not stop.requested
            context.setattr(os, "getppid", lambda: 1)
            assert stop.requested == stops
            assert stop.exit_code == os.EX_TEMPFAIL


def test_signals_that_are_not_for_this_process_are_left_alone():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)

    def is_requested():
        with StopRequest() as stop:
            return stop.requested

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(is_requested).result() is False
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_request_ends_the_process(monkeypatch):
    monkeypatch.setattr("training.runs.signals.ECHO_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), StopRequest():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
