"""The progress of a command: a bar on a terminal, a line now and then elsewhere."""

import sys
from types import TracebackType
from typing import Any

LINE_SECONDS = 15.0  # between lines where there is no terminal, and before the first one


class ProgressBar:
    """Counts what has been done, and shows how much, how fast, and how long the rest will take.

    total: how much there is to do, as far as is known; done: how much of it was done before; both
    in `unit`, which is bytes unless it is named.

    A terminal shows a bar. A file or a pipe gets a line every `line_seconds`, so that the log of a
    long job shows that it lives, and that of a short one stays empty.
    """

    def __init__(
        self,
        what: str,
        total: float | None = None,
        *,
        unit: str = "B",
        done: float = 0,
        shown: bool = True,
        line_seconds: float = LINE_SECONDS,
    ):
        from tqdm import tqdm  # imported late: a command that ends at once does not need it

        stderr = sys.stderr
        options: dict[str, Any] = {"desc": what, "total": total, "initial": done, "unit": unit}
        options["unit_scale"] = unit == "B"
        if stderr is None or not shown:
            options["disable"] = True
        elif not stderr.isatty():
            seconds = {"mininterval": line_seconds, "maxinterval": line_seconds}
            options |= {"file": _Lines(), "delay": line_seconds, "ncols": 0, **seconds}
        self._bar = tqdm(**options)

    def advance(self, count: float) -> None:
        """Count more of what is done."""
        self._bar.update(count)

    def expect(self, total: float) -> None:
        """Set the total, as far as is known."""
        self._bar.total = total

    def note(self, text: str) -> None:
        """Show a text after the rest from now on."""
        self._bar.set_postfix_str(text, refresh=False)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return float(self._bar.format_dict["elapsed"])

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()


class _Lines:
    """Stderr for a bar: each state becomes a line, instead of being drawn over the last one."""

    def write(self, text: str) -> None:
        if line := text.strip():
            sys.stderr.write(f"{line}\n")

    def flush(self) -> None:
        sys.stderr.flush()
