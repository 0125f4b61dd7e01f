"""Where a step's time goes."""

from types import SimpleNamespace

import pytest
import torch

from training.throughput import Stopwatch, ThroughputMeter, Times, bottleneck


def times(total=10.0, exposed=0.0, waited=0.0, characters=1000.0):
    return Times(total, exposed, waited, characters, 0.0)


def test_pauses_do_not_count():
    now = iter([0.0, 10.0, 110.0, 120.0])
    watch = Stopwatch(lambda: next(now))  # at 0
    with watch:  # 10 to 110
        pass
    assert watch.lap() == 20  # at 120


def test_a_split_takes_nothing_from_a_lap():
    now = iter([0.0, 3.0, 5.0, 105.0, 108.0, 110.0])
    watch = Stopwatch(lambda: next(now))  # at 0
    assert watch.split() == 3
    with watch:  # 5 to 105
        pass
    assert watch.split() == 5  # at 108, since 3
    assert watch.lap() == 10  # at 110, since 0


def test_a_line_has_the_speed_since_the_line_before_and_leaves_the_row_alone():
    now = iter([0.0, 4.0, 6.0])
    meter = ThroughputMeter(None, None, SimpleNamespace(waited=0.0), clock=lambda: next(now))
    meter.advance(1000, 1.0)
    assert meter.close_line() == {"characters_per_second": 250.0, "seconds": 4.0}
    meter.advance(1000, 1.0)
    assert meter.close_line() == {"characters_per_second": 500.0, "seconds": 2.0}
    assert (meter.steps, meter.characters) == (2, 2000)


class Cluster:
    """Two ranks whose clocks, exchanges and prefetchers say what a test sets."""

    size, device = 2, "cpu"

    def __init__(self):
        self.now, self.exposed, self.other = 0.0, [], None
        self.exchange = SimpleNamespace(clock=SimpleNamespace(lap=self.exposed.pop), sent_bytes=0.0)
        self.prefetcher = SimpleNamespace(waited=0.0)

    def gather(self, own):
        return torch.stack([own, torch.tensor(self.other, dtype=own.dtype)])

    def work(self, *, seconds, exposed, waited, sent_bytes, other):
        """Let a row's time pass; other: the `Times` of rank 1."""
        self.now += seconds
        self.prefetcher.waited += waited
        self.exchange.sent_bytes += sent_bytes
        self.exposed.append(exposed)
        self.other = other


def test_a_row_has_the_speeds_since_the_one_before():
    cluster = Cluster()
    cluster.now = 100.0
    meter = ThroughputMeter(
        cluster, cluster.exchange, cluster.prefetcher, clock=lambda: cluster.now
    )
    for _ in range(2):
        meter.advance(6000, 0.25)
    cluster.work(
        seconds=10.0, exposed=4.0, waited=1.0, sent_bytes=600.0,
        other=[10.0, 0.5, 0.5, 9000.0, 600.0],
    )  # fmt: skip
    assert meter.close_row() == {
        "characters_per_second": 1200.0,  # 2 * 6,000 in 10 s, by both ranks
        "data_wait_seconds": 0.5,  # a step's, of the rank that waits most
        "exposed_seconds": 1.125,  # a step's, of the mean rank
        "sent_bytes": 300.0,
        "rank_characters_per_second": [600.0, 1000.0],  # 3,000 in 5 s, 9,000 in 9 s
        "slowest_rank": 1,
        "bottleneck": "straggler 18%",  # the 3.5 s that rank 0 waits longer, of 20
    }
    meter.advance(1000, 0.5)
    cluster.work(
        seconds=4.0, exposed=0.5, waited=0.25, sent_bytes=300.0,
        other=[4.0, 1.0, 0.0, 500.0, 300.0],
    )  # fmt: skip
    assert meter.close_row() == {
        "characters_per_second": 250.0,
        "data_wait_seconds": 0.25,
        "exposed_seconds": 0.75,
        "sent_bytes": 300.0,
        "rank_characters_per_second": [153.8, 166.7],  # 500 in 3.25 s, 500 in 3 s
        "slowest_rank": 0,
        "bottleneck": "communication 12%",  # of 8 s, the 0.5 that each rank waits at least
    }


def test_ranks_leave_a_pause_together():
    """So none counts another's evaluation as its own computing, nor as waiting."""
    events = []
    world = SimpleNamespace(barrier=lambda: events.append("met"))
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
