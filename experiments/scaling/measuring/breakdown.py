"""The profiler's events as seconds: computing, communicating, waiting for data.

On a GPU kernels compute, and NCCL's communicate. On a CPU the operations on the training thread
compute; gloo's work goes on in threads of its own. What either waits for slower ranks is in its
seconds; a clock tells it apart, by the rank that waits least.
"""

from collections.abc import Iterable, Sequence

from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

MEASURED, WAITING = "measured steps", "wait for data"  # what the steps are marked with
# Around other operations, or around an exchange that is only put on its way, or waited for.
AROUND = ("autograd::engine::evaluate_function", "c10d::")
MICROSECOND = 1e-6
Span = tuple[float, float]  # from, to; microseconds


def breakdown(events: Sequence[FunctionEvent], steps: int) -> dict[str, float]:
    """Return the seconds of a step by what they go into, and the pieces that gradients go in.

    events: of steps that are marked as MEASURED together, with the device idle at both ends.
    `computing`, `exposed`, `data_wait` and `other` (nothing of these) add up to `seconds`;
    `communicating` is what is exposed and what computing hides.
    """
    (whole,) = (e for e in events if e.name == MEASURED and e.device_type == DeviceType.CPU)
    events = [event for event in events if event.time_range.start >= whole.time_range.start]
    on_gpu = any(event.device_type == DeviceType.CUDA for event in events)
    of_gpu = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    if on_gpu:
        exchanges = [event for event in of_gpu if "nccl" in event.name.lower()]
        work = [event for event in of_gpu if "nccl" not in event.name.lower()]
    else:
        exchanges = [event for event in events if event.name.startswith("gloo:")]
        work = [event for event in events if event.thread == whole.thread and _computes(event)]
    computing, communicating = merged(map(span, work)), merged(map(span, exchanges))
    waiting = merged(span(event) for event in events if event.name == WAITING)
    busy = merged([*computing, *communicating])
    everything = length(merged([*busy, *waiting]))
    seconds = {
        "seconds": length([span(whole)]),
        "computing": length(computing),
        "communicating": length(communicating),
        "exposed": length(busy) - length(computing),
        "data_wait": everything - length(busy),
        "other": length([span(whole)]) - everything,
    }
    parts = {name: value * MICROSECOND / steps for name, value in seconds.items()}
    return {**parts, "pieces": len(exchanges) / steps}


def _computes(event: FunctionEvent) -> bool:
    return not (event.is_user_annotation or event.is_async or event.name.startswith(AROUND))


def span(event: FunctionEvent) -> Span:
    """Return when an event began and ended."""
    return event.time_range.start, event.time_range.end


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the same times as spans that do not overlap, in order."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((begin, end))
    return result


def length(spans: Sequence[Span]) -> float:
    """Return how long spans that do not overlap are together."""
    return sum(end - begin for begin, end in spans)
