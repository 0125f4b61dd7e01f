"""Ctrl-C, SIGTERM and a closed terminal: finish the step, save, leave."""

import os
import signal
import threading
import time
from types import FrameType

from ..parallel.launcher import TEMPORARY_FAILURE

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
ECHO_SECONDS = 5.0  # signals this close together are one request


class StopRequest:
    """A flag that SIGINT, SIGTERM or SIGHUP sets; a second one, seconds later, ends the process.

    A terminal and Slurm signal every process, and torchrun forwards its own signal to the workers
    as well. Outside the main thread, where Python handles no signals, the flag is never set.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._noted_at = 0.0
        self._previous: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The code with which a stopped run ends: 0, 128 plus the signal's number, or 75.

        0 after SIGTERM, as requested; 130 after Ctrl-C, so that a calling script stops; 129 after
        SIGHUP, from a closed terminal. 75 if another rank was signalled and this one stopped with
        it: a launcher that may restart then continues without the other; after 0 it would treat the
        run as finished.
        """
        if not self.requested:
            return TEMPORARY_FAILURE
        return 0 if self.signal == signal.SIGTERM else 128 + int(self.signal or 0)

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _SIGNALS:
            by_nohup = number not in (signal.SIGINT, signal.SIGTERM)
            if not (by_nohup and signal.getsignal(number) is signal.SIG_IGN):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.signal, self._noted_at = number, time.monotonic()
        elif time.monotonic() - self._noted_at > ECHO_SECONDS:
            self._restore()
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
