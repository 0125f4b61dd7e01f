"""Where a step's time goes."""

from types import SimpleNamespace

import pytest

from training.throughput import Stopwatch, ThroughputMeter, Times, bottleneck


def times(total=10.0, exposed=0.0, waited=0.0, characters=1000.0):
    return Times(total, exposed, waited, characters, 0.0)


def test_pauses_do_not_count(monkeypatch):
    now = iter([0.0, 10.0, 110.0, 120.0])
    monkeypatch.setattr("training.throughput.time.perf_counter", lambda: next(now))
    watch = Stopwatch()  # at 0
    with watch:  # 10 to 110
        pass
    assert watch.lap() == 20  # at 120


def test_ranks_leave_a_pause_together():
    """So none counts another's evaluation as its own computing, nor as waiting."""
    events = []
    world = SimpleNamespace(meet=lambda: events.append("met"))
    meter = ThroughputMeter(world, exchange=None, prefetcher=None)
    before = meter.stopwatch._started
    with meter.paused():
        events.append("evaluated")
    assert events == ["evaluated", "met"]
    assert meter.stopwatch._started > before
    with pytest.raises(KeyboardInterrupt), meter.paused():
        raise KeyboardInterrupt
    assert events == ["evaluated", "met"]  # a rank that fails keeps none waiting for itself


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([times()], "compute"),
        ([times(exposed=0.5), times(exposed=0.9)], "compute"),
        ([times(exposed=4.0), times(exposed=3.0)], "communication 30%"),
        ([times(exposed=0.5), times(exposed=6.0), times(exposed=6.0)], "straggler 37%"),
        ([times(waited=2.0)], "input 20%"),
    ],
)
def test_what_holds_the_step_up_is_named(ranks, named):
    assert bottleneck(ranks) == named
