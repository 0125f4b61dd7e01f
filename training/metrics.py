"""The log of a run: metrics.jsonl first, TensorBoard, and the console."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from mlstm_sentiment.bounds import PositiveInt, check_bounds

from .console import ProgressLines, print_main
from .parallel.agreement import run_on_main
from .parallel.distributed import World
from .runs.rows import RowWriter, keep_rows
from .runs.run_directory import PretrainingDirectory

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """How often a row of metrics is written."""

    every_steps: PositiveInt = 20
    """Steps between rows; evaluations and the end of the run write one as well."""

    def __post_init__(self) -> None:
        check_bounds(self, "log.")


class Board:
    """Writes a run's TensorBoard events; if writing fails, training continues without them."""

    def __init__(
        self, folder: Path, first_step: int, make: Callable[..., SummaryWriter] = SummaryWriter
    ):
        """Open a file of events; hide events of later steps that an earlier start has written."""
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
        self._write(lambda: self._writer.add_text(name, text, step))

    def close(self) -> None:
        self._write(self._writer.close)

    def _write(self, act: Callable[[], object]) -> None:
        """Call `act` unless an earlier call failed; the error may stem from an earlier call."""
        if self._failed:
            return
        try:
            act()
        except OSError as error:
            log.warning("%s: cannot write events (%s); the training continues", self.folder, error)
            self._failed = True
            with suppress(OSError):  # it may fail again
                self._writer.close()  # ends its thread


class RunLog:
    """Writes rows as they come, and prints lines, on the main rank only.

    After a resume at `first_step`, rows beyond it and an incomplete last line are dropped first.
    `board`, for TensorBoard, exists only on the main rank.
    """

    def __init__(self, run: PretrainingDirectory, first_step: int, steps: int, world: World):
        """Open the files; InputError, on every rank, if the old rows are damaged."""
        self.enabled, self._run, self._steps, self._world = world.is_main, run, steps, world
        self._open(first_step)

    def _open(self, first_step: int) -> None:
        metrics = self._run.metrics
        run_on_main(self._world, lambda: keep_rows(metrics, first_step))
        if not self.enabled:
            return
        self._rows = RowWriter(metrics)
        self.board = Board(self._run.tensorboard, first_step)
        self._lines = ProgressLines(first_step, self._steps)

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def go_back(self, step: int, row: Mapping[str, Any]) -> None:
        """Drop the rows after a step, from which the run continues; row: the spike's."""
        print_main(
            self._world,
            f"step {row['step']:>6}  train {row['train_bits_per_character']:.4f} bits/char is a "
            f"spike of {row['spike_bits']:.2f}: back to step {step:,}, and past its windows",
        )
        self._close()
        self._open(step)

    def _close(self) -> None:
        if self.enabled:
            self._lines.close()
            self.board.close()
            self._rows.close()

    def advance(self) -> bool:
        """Count a step; return whether a line is due on the console of the main rank."""
        return self.enabled and self._lines.advance()

    def print_line(self, line: Mapping[str, Any], row: Mapping[str, Any] | None = None) -> None:
        """Print a line on the console: what `close_line` of Trainer and ThroughputMeter return."""
        if self.enabled:
            self._lines.show(line, row or {})

    def write(self, row: dict[str, Any], line: Mapping[str, Any]) -> None:
        """Write a row, and print its line, which covers the steps since the previous line."""
        if not self.enabled:
            return
        self._rows.write(row)
        for name, value in row.items():
            if name != "step":
                self.board.show(name, value, row["step"])
        self.print_line(line, row)
