"""When a training writes rows of metrics, and what makes them whole."""

from collections.abc import Callable
from typing import Any

from mlstm_sentiment.errors import TimeIsUp

from .best_model import BestModelWriter
from .metrics import RunLog
from .monitor import Monitor
from .run_plan import RunPlan
from .throughput import ThroughputMeter
from .trainer import Trainer


class MetricRows:
    """Closes a run's rows and writes them; all ranks call it together.

    A row at which the model is evaluated stays open until that is done. If time is up before, it is
    in the checkpoint, and the next start completes it.
    """

    def __init__(
        self,
        trainer: Trainer,
        plan: RunPlan,
        every_steps: int,
        *,
        best_model: BestModelWriter,
        monitor: Monitor,
        log: RunLog,
        meter: ThroughputMeter,
        is_time_up: Callable[[], bool],
    ):
        self.trainer, self.plan, self.every_steps = trainer, plan, every_steps
        self.best_model, self.monitor = best_model, monitor
        self.log, self.meter, self.is_time_up = log, meter, is_time_up

    @property
    def is_due(self) -> bool:
        """Whether a row ends with the last step."""
        return self._evaluates or self.trainer.progress.step % self.every_steps == 0

    @property
    def _evaluates(self) -> bool:
        progress = self.trainer.progress
        return self.plan.is_due(self.plan.evaluate, progress.step, progress.skipped_windows)

    def write(self, row: dict[str, Any]) -> bool:
        """Complete and write a row that the trainer has closed; return whether there was time."""
        progress = self.trainer.progress
        row["epochs"] = self.plan.clock.epochs(progress.step, progress.skipped_windows)
        row |= self.meter.close_row()
        if self._evaluates:
            progress.open_row = row
            return self.complete()
        self.log.write(row, self._closed_line())
        return True

    def complete(self) -> bool:
        """Evaluate and write the open row, if there is one; return whether there was time."""
        trainer = self.trainer
        row = trainer.progress.open_row
        if row is None:
            return True
        try:
            with self.meter.paused():
                row = row | self.best_model.evaluate(trainer, self.is_time_up)
                row |= self.monitor.show(trainer, self.log, self.is_time_up)
        except TimeIsUp:
            return False
        trainer.progress.open_row = None
        self.log.write(row, self._closed_line())
        return True

    def print_line(self) -> None:
        """Print a line between two rows."""
        self.log.print_line(self._closed_line())

    def _closed_line(self) -> dict[str, Any]:
        return self.trainer.close_line() | self.meter.close_line()
