"""Measures the parts of a training step, in milliseconds, with torch's profiler."""

import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from model.fused.weight_gradients import PRODUCT

DATA = "data"
REST = "rest"
BACKWARD = "autograd::engine::evaluate_function: "
# Events of a step by the part that they belong to; the first that fits takes an event with all that
# ran inside it, except weight gradients, which run inside the backward pass of the recurrence.
PARTS = {
    DATA: DATA,
    "weight gradients": f"{PRODUCT}|{BACKWARD}_AttachBackward",
    "recurrence, forward": r"_\w+Mlstm",
    "recurrence, backward": rf"{BACKWARD}_\w+MlstmBackward",
    "loss": rf"_LinearCrossEntropy|{BACKWARD}_LinearCrossEntropyBackward",
    "weight norm": rf"_NormedRows|{BACKWARD}_NormedRowsBackward",
    "optimiser": r"Optimizer\.step#\w+\.step|aten::_foreach_norm|aten::_fused_\w+",
}
Spans = Mapping[str, float]


def profile_step(step: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Return medians over profiled steps: `milliseconds` of the step and of each part, `share`.

    step: makes one training step; what it does under `record_function(DATA)` is data.
    """
    step()
    measured = [_profiled(step) for _ in range(rounds)]
    names = [*PARTS, REST]
    medians = {name: statistics.median(spans[name] for spans in measured) for name in names}
    total = statistics.median(sum(spans.values()) for spans in measured)
    return {
        "milliseconds": {"step": total, **medians},
        "share": {name: value / total for name, value in medians.items()},
    }


def _profiled(step: Callable[[], object]) -> Spans:
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiled, record_function("step"):
        step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return spans_of(profiled.events())


def spans_of(events: list[FunctionEvent]) -> Spans:
    """Return the milliseconds of every part of a step, which is the event named `step`."""
    spans = dict.fromkeys((*PARTS, REST), 0.0)
    whole = 0.0
    for event in events:
        milliseconds = event.time_range.elapsed_us() / 1000
        if event.name == "step":
            whole += milliseconds
        part = part_of(event)
        outer = _outer_part(event)
        if part is None or part == outer:
            continue
        spans[part] += milliseconds
        if outer is not None:
            spans[outer] -= milliseconds
    spans[REST] = whole - sum(spans.values())
    return spans


def part_of(event: FunctionEvent) -> str | None:
    """Return the part that an event by itself belongs to."""
    matching = (part for part, pattern in PARTS.items() if re.fullmatch(pattern, event.name))
    return next(matching, None)


def _outer_part(event: FunctionEvent) -> str | None:
    """Return the part of the nearest event around this one that has any."""
    parent = event.cpu_parent
    while parent is not None:
        part = part_of(parent)
        if part is not None:
            return part
        parent = parent.cpu_parent
    return None
