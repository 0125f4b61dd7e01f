"""The rows of a run in TensorBoard."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger(__name__)


class Board:
    """TensorBoard's events of a run. If they cannot be written any more, training continues."""

    def __init__(
        self, folder: Path, first_step: int, make: Callable[..., SummaryWriter] = SummaryWriter
    ):
        """Open a file of events; those of later steps, from an earlier start, are hidden."""
        self.folder = folder
        self._writer = make(str(folder), purge_step=first_step + 1)
        self._failed = False

    def show(self, name: str, value: Any, step: int) -> None:
        """Show a value of a row: a number, a text, or a list with a number of every rank."""
        if isinstance(value, str):
            self.add_text(name, value, step)
        elif isinstance(value, list):
            for rank, number in enumerate(value):
                self.show(f"{name}/{rank}", number, step)
        else:
            self._write(lambda: self._writer.add_scalar(name, value, step))

    def add_text(self, name: str, text: str, step: int) -> None:
        """Show a text."""
        self._write(lambda: self._writer.add_text(name, text, step))

    def add_histogram(self, name: str, values: np.ndarray, step: int) -> None:
        """Show a histogram of values."""
        self._write(lambda: self._writer.add_histogram(name, values, step))

    def add_figure(self, name: str, figure: Any, step: int) -> None:
        """Show a matplotlib figure."""
        self._write(lambda: self._writer.add_figure(name, figure, step))

    def close(self) -> None:
        """Write what is left."""
        self._write(self._writer.close)

    def _write(self, act: Callable[[], object]) -> None:
        """Call `act` unless an earlier call failed; the failure may come from an earlier call."""
        if self._failed:
            return
        try:
            act()
        except OSError as error:
            log.warning("%s: takes no more events (%s); the training continues", self.folder, error)
            self._failed = True
            with suppress(OSError):  # again
                self._writer.close()  # ends its thread
