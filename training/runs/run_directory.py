"""The folder of a run: its name, its config, its parts."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from model.errors import InputError
from model.files.storage import recover_folders

from .folder_lock import hold_folder, holds_nothing

CONFIG_FILE = "config.toml"
VISIBLE_SECONDS = 60.0  # NFS may hide for as long what another machine has just written


class RunDirectory:
    """Where everything that a run writes goes.

    Raises InputError for a name that TensorBoard cannot write to.
    """

    ROOT = Path("runs")  # of runs without --run-dir

    def __init__(self, folder: Path):
        try:
            str(folder).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{folder}: its name is not UTF-8, as this locale reads it; set PYTHONUTF8=1, or "
                "name another folder"
            ) from error
        self.folder = folder

    @property
    def config(self) -> Path:
        """The resolved config."""
        return self.folder / CONFIG_FILE

    @property
    def metrics(self) -> Path:
        """One JSON object per row."""
        return self.folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Folders to resume from."""
        return self.folder / "checkpoint"

    @property
    def model(self) -> Path:
        """The best model so far, by the valid split."""
        return self.folder / "model"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.folder / "tensorboard"


@contextmanager
def hold_new_run(given: Path | None, name: str) -> Iterator[RunDirectory]:
    """Hold the folder of a new run: as given, or `runs/<name>`, with a suffix where taken."""
    with ExitStack() as held:
        if given is not None:
            held.enter_context(hold_folder(given))
            _refuse_taken(given)
        yield RunDirectory(given or _hold_next(RunDirectory.ROOT / name, held))


def _hold_next(folder: Path, held: ExitStack) -> Path:
    """Make and hold the folder under the first name that is free: `<name>`, `<name>-2`, ...

    Of several processes at the same moment, each makes another one.
    """
    candidate, number = folder, 1
    while True:
        try:
            held.enter_context(hold_folder(candidate, new=True))
            return candidate
        except FileExistsError:
            number += 1
            candidate = folder.with_name(f"{folder.name}-{number}")


@contextmanager
def hold_run(folder: Path, patience: float = 0.0) -> Iterator[RunDirectory]:
    """Hold the folder of a run that may be under way, and clear what a kill left half-written.

    patience: as in `hold_folder`. Raises InputError where it holds something else than a run.
    """
    run = RunDirectory(folder)
    with hold_folder(folder, patience):
        if not run.config.is_file():
            _refuse_taken(folder)
        for place in (run.folder, run.checkpoints, run.model):
            recover_folders(place)
        yield run


def _refuse_taken(folder: Path) -> None:
    if not holds_nothing(folder):
        raise InputError(
            f"{folder}: exists already; go on with --resume {folder}, or name another --run-dir"
        )


def await_visible(path: Path) -> None:
    """Wait until this machine sees what the main rank has written.

    Raises InputError where it does not appear.
    """
    deadline = time.monotonic() + VISIBLE_SECONDS
    while not _is_listed(path):
        if time.monotonic() > deadline:
            raise InputError(
                f"{path}: the main rank has it, this one does not see it; put the run directory "
                "on a file system that all nodes share"
            )
        time.sleep(0.2)


def _is_listed(path: Path) -> bool:
    """Look into the folder: unlike a question for the file, that is not answered from memory."""
    return path.parent.is_dir() and path.name in os.listdir(path.parent)


def existing_run_directory(folder: Path) -> RunDirectory:
    """Open the folder of an earlier run."""
    run = RunDirectory(folder)
    if not run.config.is_file():
        raise InputError(f"{folder}: not a run directory (no {CONFIG_FILE}); cannot resume it")
    return run
