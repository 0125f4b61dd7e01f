"""Measures seconds between two points of a device's work without waiting for it."""

import time

import torch


class Clock:
    """Adds up the seconds between `begin` and `end`; a second `begin` replaces the first.

    On a GPU the points are events in its stream, read when the total is asked for.
    """

    def __init__(self, device: torch.device):
        self.on_gpu = device.type == "cuda"
        self._total = 0.0
        self._began: torch.cuda.Event | float | None = None
        self._spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def begin(self) -> None:
        """Set the first point here."""
        self._began = _event() if self.on_gpu else time.perf_counter()

    def end(self) -> None:
        """Set the second point here; if there was a first, count the seconds between them."""
        began, self._began = self._began, None
        if isinstance(began, float):
            self._total += time.perf_counter() - began
        elif began is not None:
            self._spans.append((began, _event()))

    def lap(self) -> float:
        """Return the seconds counted so far, and start from zero; waits for a GPU's last point."""
        total, self._total = self._total, 0.0
        spans, self._spans = self._spans, []
        if spans:
            spans[-1][1].synchronize()
        return total + sum(a.elapsed_time(b) for a, b in spans) / 1000


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
