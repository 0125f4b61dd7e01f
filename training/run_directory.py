"""The folder of a run: its name, its config, its parts."""

import os
import time
from pathlib import Path

from model.errors import InputError
from model.storage import is_taken

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


def new_run_directory(given: Path | None, name: str) -> RunDirectory:
    """Choose the folder of a new run: as given, or `runs/<name>`, with a suffix where taken."""
    if given is not None:
        if is_taken(given):
            raise InputError(
                f"{given}: exists already; go on with --resume {given}, or name another --run-dir"
            )
        return RunDirectory(given)
    folder, number = RunDirectory.ROOT / name, 1
    while folder.exists():
        number += 1
        folder = RunDirectory.ROOT / f"{name}-{number}"
    return RunDirectory(folder)


def continued_run_directory(given: Path | None, name: str) -> RunDirectory:
    """Choose the folder of a run that may be under way: as given, or `runs/<name>`, never another.

    Raises InputError where it holds something else than a run.
    """
    run = RunDirectory(given if given is not None else RunDirectory.ROOT / name)
    if run.config.is_file():
        return run
    # A start cut short may have left a partial file.
    if run.folder.is_dir() and all(path.name.startswith(".") for path in run.folder.iterdir()):
        return run
    return new_run_directory(run.folder, name)


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
