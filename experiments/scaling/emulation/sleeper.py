"""A model whose computing is sleep, by the clock."""

import time

from experiments.exchange.rank import Sleeper


class Punctual(Sleeper):
    """A sleeper whose moments are set from the beginning of a window.

    What the exchange does meanwhile on this machine's cores, where a GPU has a stream of its own,
    then delays nothing unless it takes longer than the pause it falls into.
    """

    def __init__(self, numbers: list[int], ready: list[float], seconds: float, backward: float):
        shapes = [{"shape": [n], "ready": r} for n, r in zip(numbers, ready, strict=True)]
        super().__init__(shapes, seconds, backward)
        self.due = self.late = 0.0  # when the last pause was to end, and by how much it was late

    def begin(self, moment: float) -> None:
        """Let the next window begin at this moment of `time.perf_counter`."""
        self.due = moment

    def pause(self, seconds: float) -> None:
        """Sleep until so long after the moment before."""
        self.due += seconds
        sleep_until(self.due)
        self.late = time.perf_counter() - self.due


def sleep_until(moment: float) -> None:
    """Sleep until a moment of `time.perf_counter`, which all processes of a machine share."""
    remaining = moment - time.perf_counter()
    if remaining > 0:
        time.sleep(remaining)
