"""Ctrl-C and SIGTERM: finish the step, save, leave."""

import signal
from types import FrameType, TracebackType


class StopRequest:
    """A flag that SIGINT or SIGTERM sets; the second signal ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """0 after SIGTERM, a wish fulfilled; 130 after Ctrl-C, so that a calling script stops."""
        return 130 if self.signal == signal.SIGINT else 0

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
