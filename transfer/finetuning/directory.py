"""The run directory of a fine-tuning: its settings, checkpoints, best model and results.

The folder has the files of a pretraining's, and is written and resumed in the same way.
"""

from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from data_utils.provenance import describe_origin
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import MODEL_FILES, WEIGHTS_FILE
from mlstm_sentiment.files.storage import inside, step_folder
from mlstm_sentiment.files.writer import Kind, check_output, check_unchanged
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.head_files import CLASSIFIER_FILES, FOLDER, save_head
from model.inference.tensors import model_digest, save_model, save_tensors
from model.inference.weights import LoadedModel
from training.runs.checkpoint_store import (
    CheckpointStore,
    advice_if_damaged,
    flatten_optimizers,
    newest_step,
    optimizer_file,
    restore_optimizers,
    restore_weights,
)
from training.runs.run_directory import (
    HEADS_FILE,
    RunDirectory,
    keep_rows,
    lock_new_run,
    lock_run,
    read_rows,
    read_toml,
    save_toml,
)

from .config import FinetuningConfig
from .task import Task
from .trainer import Finetuner, FinetuningProgress

ASKED = "the request asks for"


@dataclass(frozen=True)
class Request:
    """Everything that decides the outcome of a fine-tuning, and the command that began it."""

    model_digest: str
    task_digest: str
    config: FinetuningConfig
    origin: dict[str, Any]

    def check_same(self, other: "Request", path: Path) -> None:
        """Refuse to continue with another model, other texts or labels, or other settings."""
        before, now = asdict(self.config), asdict(other.config)
        changed = [f"{key} {before[key]}" for key in before if before[key] != now[key]]
        for differs, what in (
            (self.model_digest != other.model_digest, "another model; give"),
            (self.task_digest != other.task_digest, "other texts or labels; give"),
            (bool(changed), f"{', '.join(changed)}; set"),
        ):
            if differs:
                raise InputError(f"{path}: was begun with {what} the same, or start again")


class FinetuningDirectory(RunDirectory):
    """A run directory whose `model/` has `classifier/` inside; at its end it has `results.json`."""

    KEY = "model_digest"
    EXISTS = "continue with --resume, or name another --output"
    MODEL_FILES = MODEL_FILES + inside(FOLDER, CLASSIFIER_FILES)
    RESULT: ClassVar[Kind] = "a transfer"

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.origin = describe_origin()  # of the command that began the run
        self.results = folder / "results.json"
        # The predicted classes of the texts of val and test: int64 [N], or [N, C] of 0 and 1.
        self.choices = folder / "choices.npz"

    def check_own(self) -> None:
        super().check_own()
        for file in (self.results, self.choices):
            check_output(file, self.RESULT)

    def locked(self, *, resume: bool) -> AbstractContextManager[Self]:
        """Lock the run's folder; InputError if it is taken, or without `resume` not empty."""
        return lock_run(self) if resume else lock_new_run(self)

    def begin(self, digest: str, task: Task, config: FinetuningConfig, *, resume: bool) -> None:
        """Write down the request; on resume, raise InputError if it differs from the first one.

        digest: the model's, before it learns. This process must hold the folder's lock.
        """
        request = Request(digest, task.digest, config, self.origin)
        if not resume or not self.config.is_file():  # perhaps killed before it had begun
            save_toml(self.config, request)
            return
        before = read_toml(self.config, Request)
        before.check_same(request, self.config)
        self.origin |= before.origin  # in the same order as before

    def publish(self, tuned: Head, tuner: Finetuner, source: LoadedModel) -> None:
        """Replace the best model and heads so far by the current model and these heads."""
        provenance = {
            "finetuned_from": dict(source.provenance),
            "epoch": tuner.progress.best_epoch,
            **self.origin,
        }
        head = replace(tuned, model_digest=model_digest(tuner.model))
        with self.replacing_model() as partial:
            save_model(partial, tuner.model, source.profile, provenance, tokenizer=source.tokenizer)
            save_head(partial / FOLDER, head)


class FinetuningCheckpoints(CheckpointStore):
    """The checkpoints of a fine-tuning, from which it continues exactly; only the newest is kept.

    `step-N/` holds the heads, the optimiser, the progress and, unless it is frozen, the model.
    Batches and dropout are not saved: the seed and the step determine them.
    """

    FORMAT_VERSION = 1

    def __init__(self, directory: FinetuningDirectory, source: LoadedModel):
        super().__init__(directory.checkpoints, keep=1)
        self.directory, self.source = directory, source

    def save(self, tuner: Finetuner) -> None:
        """Write a checkpoint unless this step has one."""
        step, source = tuner.progress.step, self.source
        if step_folder(self.folder, step).exists():
            return
        description = {"format_version": self.FORMAT_VERSION, "progress": tuner.progress.as_json()}
        with self.writing(step, description) as partial:
            if not tuner.config.freeze:
                origin = {"step": step, **self.directory.origin}
                save_model(partial, tuner.model, source.profile, origin, tokenizer=source.tokenizer)
            save_tensors(partial / HEADS_FILE, tuner.heads.state_dict())
            save_tensors(partial / optimizer_file(), flatten_optimizers([tuner.optimizer]))

    def restore(self, tuner: Finetuner) -> bool:
        """Load the newest checkpoint, and the rows until then; return whether there is one.

        Raises InputError if a part of it does not fit.
        """
        step = newest_step(self.folder)
        if step:
            folder = step_folder(self.folder, step)
            with advice_if_damaged(folder, f"remove {folder} to begin again"):
                check_unchanged(folder)
                content, path = self.describe(folder)
                tuner.progress = FinetuningProgress.from_json(content.get("progress"), step, path)
                if not tuner.config.freeze:
                    restore_weights(tuner.model, folder / WEIGHTS_FILE, ASKED)
                restore_weights(tuner.heads, folder / HEADS_FILE, ASKED)
                restore_optimizers([tuner.optimizer], folder / optimizer_file())
        keep_rows(self.directory.metrics, step - tuner.progress.lacks_evaluation)
        tuner.history = read_rows(self.directory.metrics)
        return step > 0
