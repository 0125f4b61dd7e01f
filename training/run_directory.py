"""The folder of a run: its name, its config, its parts."""

from pathlib import Path

from model.errors import InputError

CONFIG_FILE = "config.toml"


class RunDirectory:
    """Where everything that a run writes goes."""

    ROOT = Path("runs")  # of runs without --run-dir

    def __init__(self, folder: Path):
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
        if given.exists() and (not given.is_dir() or any(given.iterdir())):
            raise InputError(
                f"{given}: exists already; go on with --resume {given}, or name another --run-dir"
            )
        return RunDirectory(given)
    folder, number = RunDirectory.ROOT / name, 1
    while folder.exists():
        number += 1
        folder = RunDirectory.ROOT / f"{name}-{number}"
    return RunDirectory(folder)


def existing_run_directory(folder: Path) -> RunDirectory:
    """Open the folder of an earlier run."""
    run = RunDirectory(folder)
    if not run.config.is_file():
        raise InputError(f"{folder}: not a run directory (no {CONFIG_FILE}); cannot resume it")
    return run
