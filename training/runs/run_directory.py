"""The folder of a run: its name, its settings, its parts, the lock on it, its rows.

The rows, metrics.jsonl: one JSON object a line, written as the run goes on.
"""

import difflib
import json
import logging
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import tomli_w

from mlstm_sentiment.bounds import fill
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import MODEL_FILES
from mlstm_sentiment.files.storage import (
    Contents,
    check_replaceable,
    listed,
    lock_folder,
    recover_folders,
    whole_folder,
)
from mlstm_sentiment.files.writer import check_folder, check_output, open_work, write_content

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

_MOST_BYTES = 1 << 14  # of a config, ten times ours; tomllib takes time quadratic in a key's dots

log = logging.getLogger(__name__)

_Settings = TypeVar("_Settings")
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

    def replacing_model(self) -> AbstractContextManager[Path]:
        """Return `whole_folder` for `model/`; InputError if the run's folder is gone."""
        check_in_place(self.folder)
        return whole_folder(self.model, self.MODEL_FILES)

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
        keys = _parsed(self.config, None)
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


def check_in_place(folder: Path) -> None:
    """Raise InputError if a run's folder is gone: created again, it would not be locked."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: was moved or removed during the run, which ends here; resume it where it "
            "is now, from its newest checkpoint"
        )


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


def read_toml(path: Path, kind: type[_Settings], shipped: Path | None = None) -> _Settings:
    """Read a TOML file into a dataclass of dataclasses.

    shipped: the folder of our files of this kind. Raises InputError for a missing file (and
    suggests a similar name, next to it or in `shipped`) or a malformed one, an unknown key (and
    suggests the nearest one), a missing key, or a value of the wrong type or range.
    """
    return fill(kind, _parsed(path, shipped), path)


def _parsed(path: Path, shipped: Path | None) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise InputError(f"{path}: {size:,} bytes; a config has {_MOST_BYTES:,} at most")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors may add a mark
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such config{_near(path, shipped)}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: a folder; name a TOML file in it") from error
    # tomllib raises ValueError for a number with more digits than Python converts.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not TOML ({error})") from error


def _near(path: Path, shipped: Path | None) -> str:
    """Return the end of an error: the file likely meant instead of a missing one, or ""."""
    folders = [path.parent] if shipped is None else [shipped, path.parent]
    configs = {file.stem: file for folder in folders for file in folder.glob("*.toml")}
    near = difflib.get_close_matches(path.stem, configs, n=1)
    return f"; did you mean {os.path.relpath(configs[near[0]])}?" if near else ""


def save_toml(path: Path, settings: Any) -> None:
    """Write a dataclass of dataclasses; a key that is None is left out."""
    content = tomli_w.dumps(_plain(asdict(settings)))
    write_content(path, content, None)


def _plain(section: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            plain[key] = _plain(value)
        elif value is not None:
            plain[key] = _in_utf8(value) if isinstance(value, Path) else value
    return plain


def _in_utf8(path: Path) -> str:
    """Return a path as text for TOML, in any locale."""
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: its name is not UTF-8, so a config cannot hold it; rename it"
        ) from error


class RowWriter:
    """Appends rows to a file; each is flushed as it is written.

    `keep_rows` first drops what an earlier start of the run wrote after its checkpoint.
    """

    def __init__(self, path: Path):
        self._file = open_work(path, "a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row; an OSError names the file."""
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            error.filename = self._file.name
            raise

    def close(self) -> None:
        with suppress(OSError):  # a failed write was reported when it happened
            self._file.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a metrics file without lines that a kill cut short; InputError for other faults."""
    return [row for _, row in _rows_of(path)]


def keep_rows(path: Path, last_step: int) -> None:
    """Drop the rows beyond `last_step`, and incomplete lines; InputError as for `read_rows`."""
    if path.exists() and os.path.getsize(path):
        kept = [line + b"\n" for line, row in _rows_of(path) if row["step"] <= last_step]
        write_content(path, b"".join(kept), None)


def _rows_of(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    damaged = 0  # the previous line's number if damaged; a last line that a kill tore is ignored
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if damaged:
            log.warning(f"{path}: line {damaged} is damaged; left out")
        damaged = 0
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # neither UTF-8 nor JSON, or too large or deep
            damaged = number
            continue
        if not isinstance(row, dict) or type(row.get("step")) is not int:
            raise InputError(f"{path}: line {number} is not a row of metrics; remove it")
        yield line, row
