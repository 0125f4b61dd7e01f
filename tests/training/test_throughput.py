"""Where a step's time goes."""

import pytest

from training.throughput import Stopwatch, Times, bottleneck


def times(total=10.0, exposed=0.0, waited=0.0, characters=1000.0):
    return Times(total, exposed, waited, characters, 0.0)


def test_pauses_do_not_count(monkeypatch):
    now = iter([0.0, 10.0, 110.0, 120.0])
    monkeypatch.setattr("training.throughput.time.perf_counter", lambda: next(now))
    watch = Stopwatch()  # at 0
    with watch:  # 10 to 110
        pass
    assert watch.lap() == 20  # at 120


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
