"""What a training measures as it goes: rows of metrics, and a sample of text and the probe."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_utils.corpus import Corpus
from mlstm_sentiment.errors import InputError, TimeIsUp
from mlstm_sentiment.text.profiles import text_profile
from model.layers.language_model import LanguageModel

from .evaluation import BestModelWriter, EvaluateConfig
from .parallel.distributed import WaitingTogether, World, never, run_on_main
from .run_log import RunLog
from .run_plan import RunPlan
from .throughput import ThroughputMeter
from .trainer import Trainer

if TYPE_CHECKING:
    from .probe import Probe

_TEMPERATURE = 0.7  # of the sample
SAMPLE_LENGTH = 240  # bytes
_PROBE_TEXTS = 1000  # at most, of each file
_PROBE = "evaluate.probe_train and probe_val"  # their name in errors
# Advice in errors about labelled texts to use options, which main.py does not have.
_OPTION = re.compile("name ([^;]+) with --(text|label)-key")


class Monitor:
    """Examines the model on the main rank only; the others wait for it.

    All ranks synchronize after every part, so that a long part does not look like a lost peer.
    """

    def __init__(self, config: EvaluateConfig, corpus: Corpus, world: World):
        """Read the probe's texts; InputError, on every rank, if they cannot be read."""
        self.world = world
        self.profile, self.tokenizer = text_profile(corpus.text_profile), corpus.tokenizer
        self.probe: Probe | None = None
        run_on_main(world, lambda: self._read_probe(config))

    def _read_probe(self, config: EvaluateConfig) -> None:
        train, val = config.probe_train, config.probe_val
        if train is not None and val is not None:
            from .probe import Probe  # imports scikit-learn, which other runs do not need

            try:
                self.probe = Probe.read(train, val, _PROBE_TEXTS, self.profile, self.tokenizer)
            except OSError as error:
                raise InputError(f"{_PROBE}: {error.filename}: {error.strerror}") from error
            except InputError as error:
                advice = _OPTION.sub(r"rename \1 to \2", str(error))
                raise InputError(f"{_PROBE}: {advice}") from error

    def show(
        self, trainer: Trainer, log: RunLog, is_time_up: Callable[[], bool] = never
    ) -> dict[str, float]:
        """Show a sample and the probe's findings; return what to add to the row of metrics.

        Raises TimeIsUp, on every rank, once it is up on one of them.
        Raises Diverged, on every rank, if the model's predictions are not finite. This can happen
        even if all weights are finite, when they are too large.
        """
        row: dict[str, float] = {}
        fault: InputError | None = None
        together = WaitingTogether(self.world, is_time_up)
        if self.world.is_main:
            try:
                row = self._shown(trainer, log, together.meet)
            except InputError as error:
                fault = error
        together.finished()
        if self.world.broadcast_int(fault is not None):
            raise trainer.diverged("what the model predicts is") from fault
        return row

    def _shown(
        self, trainer: Trainer, log: RunLog, between: Callable[[], object]
    ) -> dict[str, float]:
        model, step = trainer.model, trainer.progress.step
        model.eval()
        lines = self.sample(model, between).splitlines()  # indented: shown verbatim
        log.board.add_text("sample", "".join(f"    {line}\n" for line in lines), step)
        row: dict[str, float] = {}
        if self.probe is not None:
            row = self.probe.measure(model, between)
            between()
        model.train()
        return row

    def sample(self, model: LanguageModel, between: Callable[[], object]) -> str:
        """Return a review written by the model, with the same seed every time.

        between: called after each of its bytes.
        """
        # Only the main rank writes.
        from mlstm_sentiment.engine.sampling import SamplingConfig, generate
        from model.inference.weights import LoadedModel

        sampling = SamplingConfig(temperature=_TEMPERATURE, length=SAMPLE_LENGTH)
        opening = self.profile.prefix.encode() or b"\n"
        loaded = LoadedModel(model, self.profile, Path(), tokenizer=self.tokenizer)
        pieces = generate(loaded, opening, sampling)
        written = []
        for _, piece in pieces:
            written.append(piece)
            between()
        return "".join(written)


class MetricRows:
    """Closes a run's rows and writes them; all ranks call it together.

    A row at which the model is evaluated stays open until that is done. If time is up before, it is
    in the checkpoint, and the next start completes it.
    """

    def __init__(
        self,
        best_model: BestModelWriter,
        plan: RunPlan,
        every_steps: int,
        *,
        monitor: Monitor,
        log: RunLog,
        meter: ThroughputMeter,
        is_time_up: Callable[[], bool],
    ):
        self.best_model, self.trainer = best_model, best_model.trainer
        self.plan, self.every_steps = plan, every_steps
        self.monitor, self.log, self.meter, self.is_time_up = monitor, log, meter, is_time_up

    @property
    def is_due(self) -> bool:
        """Whether a row ends with the last step."""
        return self._evaluates or self.trainer.progress.step % self.every_steps == 0

    @property
    def _evaluates(self) -> bool:
        return self.plan.is_due(self.plan.evaluate, self.trainer.progress.step)

    def write(self, row: dict[str, Any]) -> bool:
        """Complete and write a row that the trainer has closed; return whether there was time."""
        progress = self.trainer.progress
        row["epochs"] = self.plan.clock.epochs(progress.step)
        row |= self.meter.close_row()
        if self._evaluates:
            progress.open_row = row
            return self.complete()
        self.log.write(row)
        return True

    def complete(self) -> bool:
        """Evaluate and write the open row, if there is one; return whether there was time."""
        trainer = self.trainer
        row = trainer.progress.open_row
        if row is None:
            return True
        try:
            with self.meter.paused():
                row = row | self.best_model.evaluate(self.is_time_up)
                row |= self.monitor.show(trainer, self.log, self.is_time_up)
        except TimeIsUp:
            return False
        trainer.progress.open_row = None
        self.log.write(row)
        return True

    def print_line(self) -> None:
        """Print a line between two rows."""
        self.log.print_line(self.trainer.line() | self.meter.line())
