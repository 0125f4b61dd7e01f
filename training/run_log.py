"""The log of a run: metrics.jsonl first, TensorBoard, and the console.

The training continues if events cannot be written, or the console is closed.
"""

import errno
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from data_utils.corpus import Corpus
from mlstm_sentiment.bounds import PositiveInt, check_bounds
from mlstm_sentiment.commands.program import drop
from mlstm_sentiment.text.glyphs import visible
from mlstm_sentiment.text.tokenizer import BYTES
from model.state import dtype_name

from .parallel.distributed import World, run_on_main
from .run_plan import RunPlan
from .runs.run_directory import PretrainingDirectory, RowWriter, keep_rows

if TYPE_CHECKING:
    from .trainer import PretrainingProgress, Trainer

_GONE = (errno.EPIPE, errno.EIO)  # a pipe without a reader, a terminal that was closed
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk of a file for stdout
EVERY = 15.0  # seconds between two lines, apart from evaluations and checkpoints
_SHORTEST = 5.0  # fewest seconds for an estimate

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

    def __init__(self, folder: Path, first_step: int):
        """Open a file of events; hide events of later steps that an earlier start has written."""
        self.folder = folder
        self._writer = SummaryWriter(str(folder), purge_step=first_step + 1)
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

    After a resume, rows beyond its step and an incomplete last line are dropped first, and so is a
    row at its step that is still open: it will be written again.
    `board`, for TensorBoard, exists only on the main rank.
    """

    def __init__(
        self, run: PretrainingDirectory, progress: "PretrainingProgress", steps: int, world: World
    ):
        """Open the files; InputError, on every rank, if the old rows are damaged."""
        self.enabled = world.is_main
        last_row = progress.step - (progress.open_row is not None)
        run_on_main(world, lambda: keep_rows(run.metrics, last_row))
        if not self.enabled:
            return
        self._rows = RowWriter(run.metrics)
        self.board = Board(run.tensorboard, last_row)
        self._lines = ProgressLines(progress.step, steps)

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self._lines.close()
            self.board.close()
            self._rows.close()

    def advance(self) -> bool:
        """Count a step; return whether a line is due on the console of the main rank."""
        return self.enabled and self._lines.advance()

    def print_line(self, line: Mapping[str, Any]) -> None:
        """Print a line between two rows: what `line` of Trainer and ThroughputMeter return."""
        if self.enabled:
            self._lines.show(line)

    def write(self, row: dict[str, Any]) -> None:
        """Write a row, and print it as a line."""
        if not self.enabled:
            return
        self._rows.write(row)
        for name, value in row.items():
            if name != "step":
                self.board.show(name, value, row["step"])
        self._lines.show(row, is_row=True)


@contextmanager
def _surviving_closed_stdout() -> Iterator[None]:
    """In this context, printing survives a closed pipe (e.g. `tee` at logout) and a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*_GONE, *_FULL):
            raise
        drop(sys.stdout)
        full = f"cannot write to stdout ({error.strerror})"
        reason = full if error.errno in _FULL else "stdout was closed"
        try:
            print(f"{reason}; the training continues", file=sys.stderr, flush=True)
        except OSError:
            drop(sys.stderr)


def print_main(world: World, line: str) -> None:
    """Print a line, on the main rank only."""
    if world.is_main:
        with _surviving_closed_stdout():
            print(visible(line), flush=True)


def announce(trainer: "Trainer", corpus: Corpus, folder: Path, plan: RunPlan) -> None:
    """Print the sizes of the model, the data and the run, and the run's folder."""
    world, model = trainer.world, trainer.model
    step, steps = trainer.progress.step, plan.last_step
    parameters = sum(parameter.numel() for parameter in model.parameters())
    train = corpus.splits["train"]
    of_vocabulary = f"tokens of {train.tokenizer.fingerprint}"
    unit = "bytes" if train.tokenizer.kind == BYTES.kind else of_vocabulary
    lines = [
        f"{parameters:,} parameters; {train.reviews:,} reviews, {len(train.tokens):,} {unit}; "
        f"{trainer.lanes} lanes on {world.size} x {world.device.type}, "
        f"{dtype_name(model.dtype)}; {steps:,} steps "
        f"({plan.clock.epochs(steps):.2f} epochs) from step {step:,}",
        f"recurrence: {model.implementation}",
    ]
    if corpus.is_embedded:
        lines.append(
            "the reviews are generated, only for a first try; set --data.corpus to use real ones"
        )
    lines.append(f"writing to {folder}")
    if step >= steps:
        more = "to continue, raise --train.steps or --train.epochs"
        if plan.cooldown is not None:
            more = (
                "to continue, resume a copy of the run from before its cooldown, which began at "
                f"step {plan.cooldown.start:,}"
            )
        lines.append(f"the run has already taken its last step; {more}")
    if not corpus.splits["valid"].reviews:
        lines.append(
            "the corpus has no valid split: nothing is evaluated, and model/ gets the last weights"
        )
    print_main(world, "\n".join(lines))


class ProgressLines:
    """Prints a run's lines, above a bar if stderr is a terminal."""

    def __init__(self, first_step: int, steps: int, clock: Callable[[], float] = time.monotonic):
        self.steps = steps
        self._clock = clock
        self._began: tuple[int, float] | None = None  # the step and the time of the first line
        self._line_time = -math.inf  # when the last line was printed or requested
        self._asked = False  # whether a line was requested since the last one
        self._bar = tqdm(
            total=steps, initial=first_step, unit=" steps", disable=not sys.stderr.isatty()
        )

    def close(self) -> None:
        self._bar.close()

    def advance(self) -> bool:
        """Count a step; return whether a line is due.

        A line is due at the first step, and EVERY seconds after the previous line. It is requested
        only once, because several ranks begin to prepare it a step later.
        """
        self._bar.update()
        now = self._clock()
        due = now - self._line_time >= EVERY
        if due:
            self._line_time, self._asked = now, True
        return due

    def show(self, line: Mapping[str, Any], *, is_row: bool = False) -> None:
        """Print a line, or a row of metrics.

        With several ranks, a requested line comes a step later. It is skipped if a row came first.
        """
        text, is_due = self._text(line), is_row or self._asked
        self._asked = False
        if not is_due:
            return
        self._line_time = self._clock()
        with _surviving_closed_stdout():
            if self._bar.disable or sys.stdout is None:
                print(text, flush=True)
            else:
                self._bar.write(text)

    def _text(self, line: Mapping[str, Any]) -> str:
        valid, bottleneck = line.get("valid_bits_per_character"), line.get("bottleneck", "compute")
        return (
            f"step {line['step']:>6}  train {line['train_bits_per_character']:.4f} bits/char"
            + (f"  valid {valid:.4f}" if valid is not None else "")
            + f"  lr {line['learning_rate']:.2e}  {line['characters_per_second']:,.0f} chars/s"
            + ("" if bottleneck == "compute" else f"  bottleneck: {bottleneck}")
            + (f"  SPIKE: +{line['spike_bits']:.2f} bits" if "spike_bits" in line else "")
            + (f"  {line['verdict']}" if "verdict" in line else "")
            + self._progress(line["step"])
        )

    def _progress(self, step: int) -> str:
        """Return the percentage of steps done, rounded down, and the time left."""
        done = f"  {1000 * step // self.steps / 10:.1f}% of {self.steps:,} steps"
        each, left = self.seconds_per_step(step), self.steps - step
        if each is None or left <= 0:
            return done
        return f"{done}  {tqdm.format_interval(each * left)} left"

    def seconds_per_step(self, step: int) -> float | None:
        """Return the seconds of a step since the first line; None while it is too early.

        Evaluations and checkpoints count; the first step, which also compiles, does not.
        """
        now = self._clock()
        first, began = self._began = self._began or (step, now)
        return (now - began) / (step - first) if now - began >= _SHORTEST else None
