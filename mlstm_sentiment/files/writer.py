"""How this project writes a file; `storage` renames, copies and removes whole folders.

Names are looked up in an open folder, and no link is followed. A file appears whole or not at all.
What was written into a folder is recorded next to it, in RECORD: one JSON object for each file,
with its name, its kind and its digest. A file is replaced only by one of its kind, and only if
nobody has changed it since it was written; every other file is the user's. A file that the running
command reads is never replaced, whatever its name.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar, Token
from glob import escape
from pathlib import Path
from typing import IO, Any, Literal

from ..errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RECORD = ".mlstm_sentiment.jsonl"
PARTIAL = "partial"  # suffix of what is incomplete
STDOUT = "standard output"  # its name in messages
_RECORD_OF_USER = f".mlstm_sentiment-{os.getuid() if hasattr(os, 'getuid') else 0}.jsonl"
RECORDS = (RECORD, _RECORD_OF_USER)
_KEYS = {"file", "kind", "sha256"}  # of a line of it
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota used up, file too large
_UNWRITTEN = re.compile("[0-9]+ requested and [0-9]+ written")  # NumPy's error of a full disk
_DIR_FD = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
# Not through a link, and without waiting for the other end of a pipe.
_NO_LINK = sum(
    getattr(os, f"O_{flag}", 0) for flag in ("NOFOLLOW", "CLOEXEC", "BINARY", "NONBLOCK")
)
_TEMPORARY = re.compile(rf"\..+\.[0-9a-f]{{8}}\.{PARTIAL}")
_ABANDONED_SECONDS = 24 * 3600  # without a change: its writer must be dead
_SMALL_BYTES = 1 << 20  # files up to this size are compared with their digest
# A folder that holds one of these is read as a whole; a run's folder is not.
_DESCRIPTIONS = ("config.json", "classifier.json", "meta.json")

# What a file contains. "part of a folder": of a model, a corpus or a checkpoint. "a result": of a
# study or a benchmark.
Kind = Literal[
    "part of a folder",
    "rows",
    "features",
    "a report",
    "a heatmap",
    "a demo page",
    "a transfer",
    "a picture",
    "labelled reviews",
    "a download",
    "compiled code",
    "an evaluation",
    "a list of models",
    "a plan",
    "a description of a cluster",
    "a result",
]

# What is being read, by device and inode: in each thread, what is read there.
_inputs: ContextVar[Mapping[tuple[int, int], Path]] = ContextVar("inputs")


def set_aside(path: Path, what: str = "") -> Path:
    """Return the hidden name next to `path` of what the next write of it may remove.

    >>> set_aside(Path("runs/tour/model"), "old").name
    '.model.old.partial'
    """
    return path.with_name(f".{path.name}.{what}{'.' if what else ''}{PARTIAL}")


def begin_reading(inputs: Iterable[Path]) -> Token[Mapping[tuple[int, int], Path]]:
    """Refuse from now on, in this thread, to write over these files, or those of these folders."""
    return _inputs.set({**_inputs.get({}), **_identities(inputs)})


def check_standard_output(inputs: Iterable[Path]) -> None:
    """Raise InputError if the standard output of this process is one of these files, or its input.

    The shell's `command < texts >> texts` would read what it writes.
    """
    if sys.stdout is None:
        return
    with suppress(OSError):
        status = os.fstat(1)
        if not stat.S_ISREG(status.st_mode):
            return
        with suppress(OSError):  # standard input may be closed
            if os.path.samestat(status, os.fstat(0)):
                raise InputError("standard output is the file of standard input; name another file")
        for path in inputs:
            with suppress(OSError, ValueError):  # not a path at all, such as a text
                if os.path.samestat(status, path.stat()):
                    raise InputError(f"{path}: standard output is this input; name another file")


@contextmanager
def reading(*inputs: Path) -> Iterator[None]:
    """Refuse to write over these files, or those of these folders, within the context."""
    before = begin_reading(inputs)
    try:
        yield
    finally:
        _inputs.reset(before)


def _identities(paths: Iterable[Path]) -> dict[tuple[int, int], Path]:
    found = {}
    for path in paths:
        with suppress(OSError, ValueError):  # not a path at all, such as a text
            for file in _files_of(path):
                status = file.stat()
                found[status.st_dev, status.st_ino] = file
    return found


def _files_of(path: Path) -> Iterable[Path]:
    """Return what reading a path reads: of a run, only its model and classifier."""
    if not stat.S_ISDIR(path.stat().st_mode):
        return [path]
    places = [path, *(path / name for name in ("model", "model/classifier", "classifier"))]
    described = [each for each in places if any((each / name).is_file() for name in _DESCRIPTIONS)]
    found = (each.iterdir() for each in described) if described else [path.rglob("*")]
    return [file for files in found for file in files if file.is_file()]


class _Folder:
    """An open folder: a name in it is looked up there, whatever becomes of the folder's path."""

    def __init__(self, path: Path):
        self.path = path
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags) if _DIR_FD else None

    def __enter__(self) -> "_Folder":
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else str(self.path / name)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        if not hasattr(os, "O_NOFOLLOW"):
            self._refuse_link(name)
        try:
            descriptor = os.open(self._at(name), flags | _NO_LINK, mode, dir_fd=self._fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                self._refuse_link(name)
            error.filename = str(self.path / name)
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InputError(f"{self.path / name}: is no file but a folder or a pipe; remove it")
        return descriptor

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file, or of the link itself; None if there is none."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._fd)

    def rename(self, old: str, new: str) -> None:
        fds = {"src_dir_fd": self._fd, "dst_dir_fd": self._fd}
        os.replace(self._at(old), self._at(new), **fds)

    def digest(self, name: str) -> str:
        with open(self.open(name, os.O_RDONLY), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def check_free(self, name: str, kind: Kind | None) -> None:
        """Raise InputError unless a file may be created or replaced; kind: as for writing."""
        path = self.path / name
        with suppress(OSError):  # there is none
            mode = os.stat(self._at(name), dir_fd=self._fd).st_mode  # also behind a link
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # such as /dev/stdout
                raise InputError(f"{path}: is a pipe or a device; name a file")
        self._refuse_link(name)
        status = self.status(name)
        if not name or (status is not None and stat.S_ISDIR(status.st_mode)):
            raise InputError(f"{path}: is a folder; name a file in it")
        if status is None:
            return
        source = _inputs.get({}).get((status.st_dev, status.st_ino))
        with suppress(OSError):
            if source is not None and os.path.samestat(source.stat(), status):
                raise InputError(f"{path}: this is an input; give another name for the output")
        if kind is None or not status.st_size:  # an empty file loses nothing
            return
        if why := self._why_foreign(name, kind):
            raise InputError(f"{path}: {why}; move it away, or give another name for the output")

    def _why_foreign(self, name: str, kind: Kind) -> str:
        """Return why the file may not be replaced; nothing if one of its kind was written here."""
        lines = [line for line in self.recorded() if line["file"] == name]
        if not lines:
            return "exists, and no record says that this project wrote it"
        digest = self.digest(name)
        kinds = [line["kind"] for line in lines if line["sha256"] == digest]
        if not kinds:
            return "was changed after this project wrote it"
        return "" if kind in kinds else f"contains {kinds[-1]}, not {kind}"

    def _refuse_link(self, name: str) -> None:
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise InputError(
                f"{self.path / name}: is a link, and nothing is written through links; name its "
                "target, or another file"
            )

    def recorded(self) -> list[dict[str, str]]:
        """Return the lines of the record, and of that of a user who cannot write to the first."""
        lines: list[dict[str, str]] = []
        for name in (RECORD, _RECORD_OF_USER):
            with (
                suppress(FileNotFoundError, PermissionError),
                open(self.open(name, os.O_RDONLY), "rb") as file,
            ):
                lines += filter(None, map(_parsed, file))
        return lines

    def _open_record(self) -> int:
        """Open the record to add to it; in a folder of several users, the own one."""
        flags, name = os.O_RDWR | os.O_CREAT | os.O_APPEND, RECORD
        try:
            record = self.open(name, flags)
        except PermissionError:
            record = self.open(name := _RECORD_OF_USER, flags)
        if os.fstat(record).st_nlink == 1:
            return record
        os.close(record)
        raise InputError(
            f"{self.path / name}: has another name, too (a hard link); put a copy in its place"
        )

    def add(self, kind: Kind, contents: Mapping[str, str]) -> None:
        """Add files to the record and flush that, before they get their names.

        contents: by the name of each file, where in the folder its content is.
        """
        recorded = self.recorded()
        found = (
            {"file": name, "kind": kind, "sha256": self.digest(content)}
            for name, content in contents.items()
        )
        lines = [line for line in found if line not in recorded]
        added = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if not added:
            return
        with open(self._open_record(), "rb+", buffering=0) as record:
            size = os.fstat(record.fileno()).st_size
            record.seek(max(size - 1, 0))
            is_torn = size > 0 and record.read(1) != b"\n"  # by a kill
            record.write(b"\n" * is_torn + added)
            os.fsync(record.fileno())

    def sweep(self, name: str) -> None:
        """Remove what killed writers of a file left.

        Whoever writes into the folder holds a shared lock on it. Without locks, a day without a
        change means that the writer is dead.
        """
        is_alone = self._lock("LOCK_EX", "LOCK_NB")
        for path in self.path.glob(f".{escape(name)}.*.{PARTIAL}"):
            with suppress(OSError):  # already gone, or of another user
                age = time.time() - path.lstat().st_mtime
                if _TEMPORARY.fullmatch(path.name) and (is_alone or age > _ABANDONED_SECONDS):
                    self.remove(path.name)
        self._lock("LOCK_SH")

    def _lock(self, *kinds: str) -> bool:
        """Lock the folder until it is closed; return whether that was possible."""
        if fcntl is None or self._fd is None:
            return False
        try:
            fcntl.flock(self._fd, sum(getattr(fcntl, kind) for kind in kinds))
        except OSError:
            return False
        return True

    def publish(self, temporary: str, name: str, kind: Kind | None) -> None:
        """Give a whole file its name; record it before."""
        # Windows flushes only what is open for writing.
        flags = os.O_RDONLY if os.name == "posix" else os.O_RDWR
        with open(self.open(temporary, flags), "rb") as file:
            os.fsync(file.fileno())
        if kind is not None:
            self.add(kind, {name: temporary})
        self.rename(temporary, name)


def _parsed(line: bytes) -> dict[str, str] | None:
    """Return a line of a record; None for anything else, such as one that a kill has cut short."""
    with suppress(ValueError, RecursionError):
        content = json.loads(line)
        if isinstance(content, dict) and content.keys() == _KEYS:
            return {key: str(value) for key, value in content.items()}
    return None


def check_output(path: Path, kind: Kind | None) -> None:
    """Raise InputError now for a file that would be refused later."""
    if path.parent.is_dir():
        # Another process may remove the folder just now.
        with suppress(FileNotFoundError), _Folder(path.parent) as folder:
            folder.check_free(path.name, kind)


def write_atomically(path: Path, write: Callable[[Path], object], kind: Kind | None) -> None:
    """Let `write` fill a temporary file next to `path`, then rename it over `path`.

    Readers see the old file or the new one, never a part of it, even after a kill. If several
    write at once, each has its own temporary file, and the last to finish wins. Raises InputError
    for a link, a pipe or a device, for an input of the command, and for a file of another kind.

    kind: what the file contains, as recorded; None in a folder that belongs to its command alone,
    as a run's folder does to the run: nothing is recorded there, and `lock_folder` and
    `recover_folders` remove what a kill left.
    """
    with ExitStack() as stack:
        with path_in_oserrors(path, path.parent):
            folder = stack.enter_context(_Folder(path.parent))
            folder.check_free(path.name, kind)
            if kind is not None:
                folder.sweep(path.name)
            name = set_aside(Path(path.name), secrets.token_hex(4)).name
            os.close(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        stack.callback(folder.remove, name)
        temporary = folder.path / name
        mode = stat.S_IMODE(temporary.stat().st_mode)  # os.umask cannot read without changing
        with path_in_oserrors(path, temporary):
            write(temporary)
            os.chmod(temporary, mode)  # safetensors makes files that only the owner reads
            folder.publish(name, path.name, kind)


def write_content(path: Path, content: str | bytes, kind: Kind | None) -> None:
    """Write a text, as UTF-8, or bytes, as `write_atomically` does."""
    content = content.encode() if isinstance(content, str) else content
    write_atomically(path, lambda file: file.write_bytes(content), kind)


def write_json(path: Path, content: Mapping[str, Any], kind: Kind | None) -> None:
    write_content(path, json.dumps(content, indent=2) + "\n", kind)


def open_work(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file that only its command knows, such as one that the next call continues."""
    with path_in_oserrors(path), _Folder(path.parent) as folder:
        folder.check_free(path.name, None)
        return open(path, mode, opener=lambda _, flags: folder.open(path.name, flags), **options)


def finish_work(work: Path, final: Path, kind: Kind) -> None:
    """Give a whole work file its final name, in the same folder."""
    with path_in_oserrors(final, work), _Folder(final.parent) as folder:
        folder.check_free(final.name, kind)
        folder.publish(work.name, final.name, kind)


def remove_work(path: Path) -> None:
    """Remove a work file, if it exists; InputError for a link, a folder or an input."""
    with _Folder(path.parent) as folder:
        folder.check_free(path.name, None)
        folder.remove(path.name)


def check_folder(path: Path) -> None:
    """Raise InputError for a folder to write into that is a link, or a file."""
    if path.is_symlink():
        raise InputError(
            f"{path}: is a link, and nothing is written through links; replace it with its target"
        )
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, but a folder of this name is needed; move it away")


def make_folder(path: Path) -> Path:
    """Make a folder inside of an output folder, unless it exists; InputError for a link."""
    check_folder(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def record_folder(folder: Path) -> None:
    for place, _, files in os.walk(folder):
        with _Folder(Path(place)) as opened:
            recorded = {line["file"] for line in opened.recorded()}
            names = sorted(set(files) - recorded - set(RECORDS))
            opened.add("part of a folder", {name: name for name in names})


def is_recorded(path: Path) -> bool:
    """Return whether a file is as this project wrote it; also if its folder has no record.

    Of a large file, only the name is looked up.
    """
    with _Folder(path.parent) as folder:
        lines = folder.recorded()
        digests = {line["sha256"] for line in lines if line["file"] == path.name}
        if not (lines and digests):  # no lines: of an earlier version, or copied without it
            return not lines
        return path.stat().st_size > _SMALL_BYTES or folder.digest(path.name) in digests


def recorded_digests(path: Path) -> set[str]:
    """Return the SHA-256 of all that was written to a file, in hexadecimal."""
    with _Folder(path.parent) as folder:
        return {line["sha256"] for line in folder.recorded() if line["file"] == path.name}


def check_unchanged(folder: Path, only: str | None = None) -> None:
    """Raise InputError for a file that has changed since its folder was written, or is lost.

    only: the name of the file to look at; None: all.
    """
    with _Folder(folder) as opened:
        digests = {line["file"]: line["sha256"] for line in opened.recorded()}
        for name in digests if only is None else digests.keys() & {only}:
            if opened.status(name) is None:
                raise InputError(f"{folder / name}: no such file, but {RECORD} lists it")
            if opened.digest(name) != digests[name]:
                raise InputError(
                    f"{folder / name}: damaged: its content is not what was written there"
                )
        if opened.status(RECORD) is not None:
            with open(opened.open(RECORD, os.O_RDONLY), "rb") as file:
                if not all(map(_parsed, file)):
                    raise InputError(f"{folder / RECORD}: damaged: a line of it is not a record")


@contextmanager
def path_in_oserrors(path: Path, filled: Path | None = None) -> Iterator[None]:
    """Add the path being written to an OSError; one from a full disk may name no file.

    filled: the temporary file or folder that is written in its place. An error that names another
    file, such as one to read, is left as it is.
    """
    try:
        yield
    except OSError as error:
        renamed = _of_one_file(error)
        name = renamed.filename
        is_own = not name or Path(str(name)).is_relative_to(filled or path)
        if is_own and renamed.errno is not None:  # without a number, it is from the network
            renamed.filename = str(path)
        if renamed is error:
            raise
        raise renamed from error


def _of_one_file(error: OSError) -> OSError:
    """Reduce an error to a number, a reason and one file; for a copy to a full disk, the target."""
    if error.errno in _FULL and error.filename2:
        return OSError(error.errno, error.strerror, error.filename2)
    if type(error) is OSError and _UNWRITTEN.fullmatch(str(error)):
        return write_failed(error)
    return error


def write_failed(error: Exception) -> OSError:
    """Turn a library's error about a file that was not written into an OSError with a number."""
    return OSError(errno.EIO, f"could not be written ({error}); is the disk full?")
