"""The folder of a fine-tuning: the request, the checkpoint, the best model so far, the results."""

from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from data_utils.provenance import describe_origin
from model.classifiers.head import Head
from model.classifiers.head_files import CLASSIFIER_FILES, FOLDER, save_head
from model.errors import InputError
from model.files.shipped import MODEL_FILES
from model.files.storage import (
    check_format_version,
    inside,
    read_json,
    step_folder,
    step_of,
    whole_folder,
    write_json,
)
from model.files.weights import LoadedModel, model_digest, save_model, save_tensors
from training.runs.checkpoint_store import (
    CheckpointStore,
    advice_if_damaged,
    flatten_optimizers,
    restore_optimizers,
    restore_weights,
)
from training.runs.run_directory import RunDirectory, lock_new_run, lock_run

from .config import FinetuningConfig
from .task import Task
from .trainer import Finetuner, FinetuningProgress

FORMAT_VERSION = 1
WEIGHTS_FILE, OPTIMIZER_FILE = "weights.safetensors", "optimizer.safetensors"
OTHER_MODEL, OTHER_TEXTS = "model_digest", "task_digest"
REVISION = "b21d37ad"  # the last with the settings of CLOSED
CLOSED = {  # settings that were closed, and the value that each had unless asked otherwise
    **{"layer_factor": 1.0, "unfreeze_epochs": 0, "patience": 0},
    **{"class_weights": "none", "threshold_metric": None, "metric": None},
}


class FinetuningDirectory(RunDirectory):
    """`finetuning.json`, `checkpoint/`, `model/` with `classifier/` inside, `results.json`."""

    CONFIG_FILE = "finetuning.json"
    EXISTS = "continue with --resume, or name another --output"
    ABSENT = "no fine-tuning was begun there; leave out --resume"
    CHECKPOINT_FILES = (WEIGHTS_FILE, OPTIMIZER_FILE, "progress.json")
    MODEL_FILES = MODEL_FILES + inside(FOLDER, CLASSIFIER_FILES)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.origin = describe_origin()  # of the command that began the run

    @property
    def results(self) -> Path:
        return self.folder / "results.json"

    @property
    def choices(self) -> Path:
        """The predicted classes of the texts of val and test: int64 [N], or [N, C] of 0 and 1."""
        return self.folder / "choices.npz"

    def locked(self, *, resume: bool) -> AbstractContextManager[Self]:
        """Lock the run's folder, or a new one; InputError if it is missing or taken."""
        return lock_run(self.check_exists()) if resume else lock_new_run(self)

    def begin(
        self, loaded: LoadedModel, task: Task, config: FinetuningConfig, *, resume: bool
    ) -> None:
        """Write down the request; on resume, raise InputError if it differs from the first one.

        This process must hold the folder.
        """
        request = as_request(loaded, task, config)
        if not resume:
            write_json(self.config, {**request, "origin": self.origin})
            return
        before = read_json(self.config)
        check_same_request(before, request, self.config)
        self.origin = before.get("origin", self.origin)

    def publish(self, tuned: Head, tuner: Finetuner, source: LoadedModel) -> None:
        """Replace the best model and heads so far by the current model and these heads."""
        provenance = {
            "finetuned_from": dict(source.provenance),
            "epoch": tuner.progress.best_epoch,
            **self.origin,
        }
        head = replace(tuned, model_digest=model_digest(tuner.model))
        with whole_folder(self.model, self.MODEL_FILES) as partial:
            save_model(partial, tuner.model, source.profile, provenance, tokenizer=source.tokenizer)
            save_head(partial / FOLDER, head)


def as_request(loaded: LoadedModel, task: Task, config: FinetuningConfig) -> dict[str, Any]:
    """Return everything that decides the outcome."""
    settings = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(config).items()}
    return {
        "format_version": FORMAT_VERSION,
        OTHER_MODEL: model_digest(loaded.model),
        OTHER_TEXTS: task.digest,
        "classes": list(task.classes),
        "config": settings,
    }


def check_same_request(before: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    """Refuse to continue with another model, other texts or labels, or other settings."""
    check_format_version(before, FORMAT_VERSION, path)
    for key, what in ((OTHER_MODEL, "another model"), (OTHER_TEXTS, "other texts or labels")):
        if before.get(key) != now[key]:
            raise InputError(f"{path}: was begun with {what}; give the same, or start again")
    earlier = before.get("config")
    if not isinstance(earlier, dict):
        raise InputError(f"{path}: config is {earlier!r}; is the file damaged?")
    for key, default in CLOSED.items():
        if earlier.get(key, default) != default:
            raise InputError(
                f"{path}: was begun with {key} {earlier[key]}, which was removed; continue it with "
                f"revision {REVISION}, or start again"
            )
    changed = [key for key, value in now["config"].items() if earlier.get(key) != value]
    if changed:
        settings = ", ".join(f"{key} {earlier.get(key)}" for key in changed)
        raise InputError(f"{path}: was begun with {settings}; set the same, or start again")


class FinetuningCheckpoints(CheckpointStore):
    """The checkpoints of a fine-tuning, from which it continues exactly; only the newest is kept.

    `step-N/` holds the weights (of the heads, and of the model unless it is frozen), the optimiser
    and `progress.json`. Batches and dropout are not saved: the seed and the step determine them.
    """

    DESCRIPTION_FILE = "progress.json"
    FORMAT_VERSION = 1
    CONTENTS = FinetuningDirectory.CHECKPOINT_FILES

    def __init__(self, folder: Path):
        super().__init__(folder, keep=1)

    def save(self, tuner: Finetuner) -> None:
        """Write a checkpoint unless this step has one."""
        step = tuner.progress.step
        if step_folder(self.folder, step).exists():
            return
        description = {"format_version": self.FORMAT_VERSION, "progress": tuner.progress.as_json()}
        with self.writing(step, description) as partial:
            save_tensors(partial / WEIGHTS_FILE, learning_modules(tuner).state_dict())
            save_tensors(partial / OPTIMIZER_FILE, flatten_optimizers([tuner.optimizer]))

    def restore(self, tuner: Finetuner) -> None:
        """Load the newest checkpoint; InputError if a part of it does not fit."""
        folder = self.complete()[-1]
        with advice_if_damaged(folder, f"remove {folder} to begin again"):
            self._restore(tuner, folder)

    def _restore(self, tuner: Finetuner, folder: Path) -> None:
        content, path = self.describe(folder)
        step = step_of(folder)
        tuner.progress = FinetuningProgress.from_json(content.get("progress"), step, path)
        restore_weights(learning_modules(tuner), folder / WEIGHTS_FILE, "the request asks for")
        restore_optimizers([tuner.optimizer], folder / OPTIMIZER_FILE)


def learning_modules(tuner: Finetuner) -> nn.ModuleDict:
    """Return the modules that learn, by the prefix of their tensors in a checkpoint."""
    modules: dict[str, nn.Module] = {"heads": tuner.heads}
    return nn.ModuleDict(modules if tuner.config.freeze else {**modules, "model": tuner.model})
