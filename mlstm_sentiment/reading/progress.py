"""The progress of a command: a bar on a terminal, an occasional line elsewhere."""

import sys
import time
from typing import Any

_TOKENS = " tokens"
_LINE_SECONDS = 15.0  # between lines without a terminal, and before the first one


class ProgressBar:
    """Counts finished work, and shows how much is done, how fast, and how long the rest will take.

    total: all the work, as far as known; done: the part done earlier; both in `unit`. Tokens and
    bytes, "B", are shown in thousands or millions. A terminal shows a bar. A file or a pipe gets a
    line every 15 seconds: long jobs log their progress, short ones log nothing. delay: seconds
    before a terminal shows the bar, for work that is usually short.
    """

    def __init__(
        self,
        what: str,
        total: float | None = None,
        *,
        unit: str = _TOKENS,
        done: float = 0,
        shown: bool = True,
        delay: float = 0.0,
    ):
        stderr, self._started = sys.stderr, time.monotonic()
        self._bar: Any = None
        self._options: dict[str, Any] = {}
        self._done: float = 0
        if stderr is None or not shown:
            return  # even a disabled tqdm bar sets the multiprocessing start method
        options: dict[str, Any] = {"desc": what, "total": total, "initial": done, "unit": unit}
        options |= {"unit_scale": unit in (_TOKENS, "B"), "delay": delay}
        if not stderr.isatty():
            seconds = dict.fromkeys(("delay", "mininterval", "maxinterval"), _LINE_SECONDS)
            options |= {"file": _Lines(), "ncols": 0, **seconds}
        self._options = options

    def advance(self, count: float) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._options and self.seconds >= self._options["delay"]:
            from tqdm import tqdm  # imported late: short commands need not load it

            bar = self._bar = tqdm(**self._options)
            bar.start_t = bar.last_print_t = bar.start_t - self.seconds
            bar.update(self._done)

    def expect(self, total: float) -> None:
        if self._options:
            self._options["total"] = total
        if self._bar is not None:
            self._bar.total = total

    def note(self, text: str) -> None:
        if self._options:
            self._options["postfix"] = text
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class _Lines:
    """Stderr for a bar: each update becomes a line, instead of replacing the last one."""

    def write(self, text: str) -> None:
        if line := text.strip():
            sys.stderr.write(f"{line}\n")

    def flush(self) -> None:
        sys.stderr.flush()
