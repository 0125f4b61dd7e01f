"""Records a few steps of a run with torch.profiler: where the time of a step goes."""

import logging
import re
from pathlib import Path

import torch
from torch.profiler import profile, supported_activities

from model.errors import InputError
from model.files.storage import path_in_oserrors

from .parallel.distributed import World

SPAN = re.compile(r"(\d{1,9}):(\d{1,9})")
MOST_EVENTS = 100_000  # of allocations, in a snapshot of a GPU's memory

log = logging.getLogger(__name__)


def parse_span(span: str) -> tuple[int, int]:
    """Return the first and the last step to record; InputError unless it is FIRST:LAST."""
    match = SPAN.fullmatch(span)
    first, last = map(int, match.groups()) if match else (0, 0)
    if not 1 <= first <= last:
        raise InputError(
            f"log.profile is {span!r}; give the first and the last step to record, such as 10:13"
        )
    return first, last


class StepProfiler:
    """Writes a trace of some steps for each rank; on a GPU also a snapshot of its memory.

    span: FIRST:LAST, both included. step: the last one taken so far. last: that of the training.
    """

    def __init__(self, span: str, folder: Path, world: World, step: int, last: int):
        begin, end = parse_span(span)
        self.steps = range(max(begin, step + 1), min(end, last) + 1)
        self.folder, self.world = folder, world
        self._profile: profile | None = None
        has_earlier = begin <= last and folder.exists()  # from before the resume
        if world.is_main and not self.steps and not has_earlier:
            log.warning(
                "log.profile is %s, but the training goes from step %d to step %d; "
                "no step is recorded",
                *(span, step, last),
            )
        self.advance(step)

    def advance(self, step: int) -> None:
        """Begin or end the recording after a step, if that is due."""
        is_due = step + 1 in self.steps
        if self._profile is not None and not is_due:
            self.close()
        elif self._profile is None and is_due:
            self._begin()

    def _begin(self) -> None:
        if self.world.device.type == "cuda":
            torch.cuda.memory._record_memory_history(max_entries=MOST_EVENTS)
        self._profile = profile(activities=supported_activities(), record_shapes=True)
        self._profile.start()

    def close(self) -> None:
        """End the recording, if one is under way, and write it."""
        if self._profile is None:
            return
        recorded, self._profile = self._profile, None
        recorded.stop()
        trace = self.folder / f"trace-rank-{self.world.rank}.json"
        try:
            with path_in_oserrors(trace):
                self.folder.mkdir(parents=True, exist_ok=True)
                recorded.export_chrome_trace(str(trace))
                if self.world.device.type == "cuda":  # for https://pytorch.org/memory_viz
                    snapshot = self.folder / f"memory-rank-{self.world.rank}.pickle"
                    torch.cuda.memory._dump_snapshot(str(snapshot))
                    torch.cuda.memory._record_memory_history(enabled=None)
        except OSError as error:
            log.warning("%s: not written (%s); the training continues", trace, error.strerror)
            return
        if self.world.is_main:
            log.info("%s: open it in https://ui.perfetto.dev", trace)
