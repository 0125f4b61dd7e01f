"""The folder of a run: its name, its settings, its parts, the lock on it."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import MODEL_FILES
from mlstm_sentiment.files.storage import (
    Contents,
    check_replaceable,
    listed,
    lock_folder,
    recover_folders,
)
from mlstm_sentiment.files.writer import check_folder, check_output

from .settings import read_keys

TRAINING_FILE = "training.json"  # in a checkpoint
LANES_FILE = "lanes.safetensors"  # in one of pretraining
HEADS_FILE = "heads.safetensors"  # in one of fine-tuning
CHECKPOINT_FILES = (
    *MODEL_FILES,
    TRAINING_FILE,
    LANES_FILE,
    HEADS_FILE,
    "optimizer.safetensors",
    "optimizer-*.safetensors",
)
# A key that only the settings of such a run have, the run, and what continues it.
KINDS = {
    "data": "a pretraining, which python main.py --resume continues",
    "model_digest": "a fine-tuning, which scripts/finetune.py --resume continues",
}
VISIBLE_SECONDS = 60.0  # NFS may hide another machine's new files for this long

_Directory = TypeVar("_Directory", bound="RunDirectory")


class RunDirectory:
    """The folder of a run, of pretraining or of fine-tuning.

    Raises InputError for a name to which TensorBoard and safetensors cannot write.
    """

    KEY: ClassVar[str]  # in KINDS
    EXISTS: ClassVar[str]  # remedy if a new run's folder holds a run
    MODEL_FILES: ClassVar[Contents] = MODEL_FILES

    def __init__(self, folder: Path):
        try:
            str(folder).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{folder}: its name is not UTF-8, as this locale reads it; set PYTHONUTF8=1, or "
                "name another folder"
            ) from error
        self.folder = folder
        self.config = folder / "config.toml"  # the settings; a folder that has them holds a run
        self.metrics = folder / "metrics.jsonl"  # one JSON object per row
        self.checkpoints = folder / "checkpoint"  # folders to resume from
        self.model = folder / "model"  # the best so far, by the validation set
        self.tensorboard = folder / "tensorboard"  # event files

    @classmethod
    def files(cls) -> Contents:
        """Return the files that a run's folder and any folder in it may hold."""
        return (*cls.MODEL_FILES, *CHECKPOINT_FILES, "config.toml", "metrics.jsonl")

    def check_own(self) -> None:
        """Raise InputError if writing here would change or delete files of another origin."""
        checkpoints = self.checkpoints.glob("*") if self.checkpoints.is_dir() else ()
        for file in (self.config, self.metrics):
            check_output(file, None)
        for folder in (self.checkpoints, self.model, self.tensorboard, *checkpoints):
            check_folder(folder)
        check_replaceable(self.model, self.MODEL_FILES)

    def check_exists(self) -> Self:
        """Return the directory; InputError if it holds no run of this kind to resume."""
        if not self.config.is_file():
            raise InputError(
                f"{self.folder}: not a run directory (no {self.config.name}); cannot resume it"
            )
        self.check_kind()
        return self

    def check_kind(self) -> None:
        """Raise InputError if the run in the folder is of another kind."""
        keys = read_keys(self.config)
        for key, kind in KINDS.items():
            if key in keys and self.KEY not in keys:
                raise InputError(f"{self.folder}: is the run of {kind}; name another folder")

    def check_empty(self) -> None:
        """Raise InputError if the folder has files that a new run would mix with its own."""
        names = sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")
        if not names:  # nothing, or only files of an interrupted start
            return
        if self.config.is_file():
            self.check_kind()
            remedy = self.EXISTS.format(folder=self.folder)
            raise InputError(f"{self.folder}: exists already; {remedy}")
        raise InputError(
            f"{self.folder}: exists already, but is not a run directory: it holds "
            f"{listed(names)}; name a new or an empty folder"
        )


class PretrainingDirectory(RunDirectory):
    """The folder of a pretraining."""

    KEY = "data"
    ROOT = Path("runs")  # of runs without --run-dir
    EXISTS = "continue with --resume {folder}, or name another --run-dir"


@contextmanager
def lock_new_run(run: _Directory) -> Iterator[_Directory]:
    """Lock the folder of a new run; InputError if something is in it."""
    with lock_folder(run.folder):
        run.check_empty()
        yield run


@contextmanager
def lock_unnamed_run(name: str) -> Iterator[PretrainingDirectory]:
    """Make and lock the first of `runs/<name>`, `runs/<name>-2`, ... that does not exist."""
    for number in count(1):
        folder = PretrainingDirectory.ROOT / (f"{name}-{number}" if number > 1 else name)
        with ExitStack() as locked:
            try:
                locked.enter_context(lock_folder(folder, new=True))
            except FileExistsError:
                continue
            yield PretrainingDirectory(folder)
            return


@contextmanager
def lock_run(run: _Directory, patience: float = 0.0) -> Iterator[_Directory]:
    """Lock the folder of a run that may exist already, and remove incomplete files left by a kill.

    patience: as in `lock_folder`. Raises InputError if the folder holds something but no run of
    this kind, and if files that are not the run's would be replaced.
    """
    with lock_folder(run.folder, patience):
        if run.config.is_file():
            run.check_kind()
        else:
            run.check_empty()
        run.check_own()
        for place in (run.folder, run.checkpoints, run.model):
            recover_folders(place, run.files())
        yield run


def await_visible(path: Path) -> None:
    """Wait until the main rank's files are visible here; InputError if they never are."""
    deadline = time.monotonic() + VISIBLE_SECONDS
    while not _is_listed(path):
        if time.monotonic() > deadline:
            raise InputError(
                f"{path}: the main rank wrote it, but this rank cannot see it; put the run "
                "directory on a file system that all nodes share"
            )
        time.sleep(0.2)


def _is_listed(path: Path) -> bool:
    """List the folder: unlike a query for the file, that is not answered from a cache."""
    return path.parent.is_dir() and path.name in os.listdir(path.parent)
