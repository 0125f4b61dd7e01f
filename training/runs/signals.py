"""Ctrl-C, SIGTERM, a closed terminal, a time limit: finish the step, save, leave."""

import os
import signal
import threading
import time
from types import FrameType

from mlstm_sentiment.errors import TEMPORARY_FAILURE, TIME_IS_UP

from ..parallel.launcher import is_launched

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", *TIME_IS_UP)
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
ECHO_SECONDS = 5.0  # signals this close together are one request


class StopRequest:
    """A flag that a signal sets; a second one, seconds later, ends the process.

    A terminal and Slurm signal every process, and torchrun forwards its own signal to the workers
    as well. Signals of a time limit may come every second and never end it. The end of the launcher
    sets the flag, too: nobody waits for this process then. Outside the main thread, where Python
    handles no signals, nothing else does.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._noted_at = 0.0
        self._previous: dict[int, object] = {}
        self._parent = os.getppid() if is_launched() else None

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived, or the launcher has ended and left this process behind."""
        return self.signal is not None or self._parent not in (None, os.getppid())

    @property
    def exit_code(self) -> int:
        """The code with which a stopped run ends: 0, 128 plus the signal's number, or 75.

        0 after SIGTERM, as requested; 130 after Ctrl-C, so that a calling script stops; 129 after
        SIGHUP, from a closed terminal; 75 before a time limit: start it again. 75 also if another
        rank was signalled and this one stopped with it: a launcher that may restart then continues
        without the other; after 0 it would treat the run as finished.
        """
        if self.signal is None or self._is_of_a_time_limit(self.signal):
            return TEMPORARY_FAILURE
        return 0 if self.signal == signal.SIGTERM else 128 + self.signal

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
        if self.signal is None:
            self.signal, self._noted_at = number, time.monotonic()
        elif self._is_of_a_time_limit(number):
            return
        elif time.monotonic() - self._noted_at > ECHO_SECONDS:
            self._restore()
            os.kill(os.getpid(), number)

    @staticmethod
    def _is_of_a_time_limit(number: int) -> bool:
        return signal.Signals(number).name in TIME_IS_UP

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
