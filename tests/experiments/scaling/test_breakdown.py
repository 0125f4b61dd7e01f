"""The profiler's events as parts of a step, against the same timelines painted tick by tick."""

import numpy as np
import pytest
import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from experiments.scaling.measuring.breakdown import MEASURED, WAITING, breakdown, merged

TICKS, STEPS = 400, 2
BEGIN = 50  # of what is measured: what was before does not count
TRAINING, GLOO = 1, 7  # threads


def event(name, begin, end, *, gpu=False, thread=TRAINING, mark=False):
    """Return an event as torch's profiler has it; microseconds."""
    return FunctionEvent(
        0, name, thread, begin, end, is_async=thread == GLOO, is_user_annotation=mark,
        device_type=DeviceType.CUDA if gpu else DeviceType.CPU,
    )  # fmt: skip


def marks(*waits):
    steps = event(MEASURED, BEGIN, TICKS, mark=True)
    return [steps, *(event(WAITING, *wait, mark=True) for wait in waits)]


def painted(computing, communicating, waiting):
    """Return the seconds of a step, counted tick by tick."""
    rows = np.zeros((3, TICKS), bool)
    for row, spans in zip(rows, (computing, communicating, waiting), strict=True):
        for begin, end in spans:
            row[begin:end] = True
    c, x, w = rows
    ticks = {
        "seconds": TICKS - BEGIN,
        "computing": c.sum(),
        "communicating": x.sum(),
        "exposed": (x & ~c).sum(),
        "data_wait": (w & ~c & ~x).sum(),
        "other": (TICKS - BEGIN) - (c | x | w).sum(),
    }
    return {name: count * 1e-6 / STEPS for name, count in ticks.items()}


def spans(random, count):
    begins = random.integers(BEGIN, TICKS - 30, count)
    return [(int(b), int(b + random.integers(1, 30))) for b in begins]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gpu", [True, False], ids=["nccl", "gloo"])
def test_parts_are_those_of_the_timeline(gpu, seed):
    random = np.random.default_rng(seed)
    computing, communicating, waiting = (spans(random, count) for count in (6, 4, 2))
    work = "sm90_gemm" if gpu else "aten::mm"
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if gpu else "gloo:all_reduce"
    events = marks(*waiting)
    events += [event(work, *s, gpu=gpu) for s in computing]
    place = {"gpu": True} if gpu else {"thread": GLOO, "mark": True}
    events += [event(kernel, *s, **place) for s in communicating]
    events += [event(work, 0, BEGIN - 1, gpu=gpu), event(kernel, 10, 20, **place)]  # before
    result = breakdown(events, STEPS)
    assert result.pop("pieces") == 4 / STEPS
    assert result == pytest.approx(painted(computing, communicating, waiting))
    parts = ("computing", "exposed", "data_wait", "other")
    assert sum(result[part] for part in parts) == pytest.approx(result["seconds"])


def test_what_only_surrounds_an_exchange_hides_nothing():
    around = ["autograd::engine::evaluate_function: Stage", "c10d::allreduce_"]
    events = [*marks(), event("gloo:all_reduce", 100, 200, thread=GLOO, mark=True)]
    events += [event(name, 90, 210) for name in around]
    events += [event("DistributedDataParallel.forward", 90, 210, mark=True)]
    events += [event("aten::copy_", 120, 150, thread=GLOO), event("aten::add", 180, 190)]
    result = breakdown(events, 1)
    assert result["computing"] == pytest.approx(10e-6)
    assert result["exposed"] == pytest.approx(90e-6)


def test_on_a_gpu_the_cpu_does_not_compute():
    events = [*marks((60, 80)), event("aten::mm", 60, 300), event("gemm", 70, 100, gpu=True)]
    events += [event("nccl:all_reduce", 90, 200, gpu=True, mark=True)]  # the kernel's mark
    result = breakdown(events, 1)
    assert result["computing"] == pytest.approx(30e-6)
    assert result["data_wait"] == pytest.approx(10e-6)
    assert result["communicating"] == result["pieces"] == 0


def test_spans_that_touch_or_overlap_become_one():
    assert merged([(5, 7), (1, 3), (2, 4), (4, 5), (9, 9)]) == [(1, 7), (9, 9)]
    assert merged([]) == []


def test_torchs_own_events_are_understood():
    x = torch.randn(200, 200)
    with profile(activities=[ProfilerActivity.CPU]) as recorded, record_function(MEASURED):
        with record_function(WAITING):
            sum(range(20_000))
        for _ in range(5):
            x @ x
    result = breakdown(recorded.events(), 1)
    assert 0 < result["computing"] < result["seconds"]
    assert 0 < result["data_wait"] < result["seconds"]
    assert result["exposed"] == result["pieces"] == 0
