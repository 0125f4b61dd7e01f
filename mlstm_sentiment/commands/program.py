"""How a command runs: its log, the errors of the user, its output."""

import atexit
import io
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, TextIO

from ..errors import TEMPORARY_FAILURE, TIME_IS_UP, WRONG_REQUEST, InputError, OutOfMemory
from ..files.writer import STDOUT, Kind, check_output, path_in_oserrors, write_json
from ..text.glyphs import visible

_ENDINGS = ("SIGTERM", "SIGHUP", *TIME_IS_UP)
MOST_CHARACTERS = 1000  # of an error: a damaged file may contain a very long name


class _Ended(KeyboardInterrupt):
    """A signal that ends the process, with the same clean-up as Ctrl-C."""

    def __init__(self, number: int):
        self.number = number

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as the shell expects; 75 where time is nearly up."""
        if signal.Signals(self.number).name in TIME_IS_UP:
            return TEMPORARY_FAILURE
        return 128 + self.number


def _print_error(error: BaseException, line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Visible(logging.Formatter):
    """Replaces what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def run(
    command: Callable[[], int | None], failed: Callable[[BaseException, str], None] = _print_error
) -> None:
    """Run a command and leave with its exit code.

    InputError and OSError (no such file, disk full) become one line on stderr, which `failed`
    prints, and the error's exit code. A reader of stdout that stops reading, such as `head`, ends
    the command silently. Characters that the encoding of stdout or stderr lacks are printed as
    escapes. SIGTERM and SIGHUP end it as Ctrl-C does, with the exit code that the shell expects:
    128 and the signal's number; so do SIGUSR1, SIGUSR2 and SIGXCPU, with 75: start it again. Only
    this module changes the command's process, its streams, log and signal handlers; `serve` has
    handlers of its own, too.
    """
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # stdout is None where it is closed
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        with _named(), handled(_heard(), _end):
            code = copy_context().run(command) or 0  # begin_reading ends with it
            if sys.stdout is not None:
                with path_in_oserrors(Path(STDOUT)):
                    sys.stdout.flush()  # here a full disk is still reported
    except (InputError, OSError) as error:
        with suppress(OSError, ValueError):  # earlier output comes before the error, if possible
            if sys.stdout is not None:
                sys.stdout.flush()
        code = getattr(error, "exit_code", WRONG_REQUEST)
        if isinstance(error, BrokenPipeError) and _reader_left():
            code = 0
        else:
            rank = os.environ.get("RANK")
            place = f"[rank {rank}] " if rank else ""
            failed(error, f"{place}error: {visible(_one_line(error))}")
        drop(sys.stdout)
    except KeyboardInterrupt as error:
        with suppress(OSError):  # the terminal may be gone
            print("interrupted", file=sys.stderr)
        code = error.exit_code if isinstance(error, _Ended) else 128 + signal.SIGINT
    # While Python and its libraries end, another Ctrl-C would print their tracebacks, and a signal
    # to end would hide how the command has ended.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
    for number in _heard():
        atexit.register(signal.signal, number, lambda *_: os._exit(code))
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Occupy the descriptors of closed standard streams, so that no file opened later gets them.

    Otherwise a library's prints would be written into that file. Messages to a closed stderr are
    discarded; a closed stdin or stdout still refuses to be read or written.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


@contextmanager
def _named() -> Iterator[None]:
    """Turn system errors that the user can cause into InputError."""
    try:
        yield
    except (MemoryError, RuntimeError, ImportError) as error:
        if shortage := OutOfMemory.of(error):
            raise shortage from error
        if str(error).startswith("Symlink loop"):  # of Path.resolve, until Python 3.13
            raise InputError(f"{error}; fix the link") from error
        raise


@contextmanager
def handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Let a handler have these signals within the context, as far as it leaves them its own."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, earlier)


def _heard() -> list[signal.Signals]:
    """Return the signals that would end the process immediately, and leave files half-written.

    An ignored signal, as by nohup, stays ignored. A rank ends immediately: it may wait for its
    peers in C++, where Python handles no signal.
    """
    if os.environ.get("RANK") or threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in signals(_ENDINGS) if signal.getsignal(number) is signal.SIG_DFL]


def signals(names: Iterable[str]) -> list[signal.Signals]:
    """Return the signals of these names that this system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _end(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # until the end: `timeout` sends it twice
    raise _Ended(number)


def _reader_left() -> bool:
    if not hasattr(select, "poll"):
        return True
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    return bool(stdout.poll(0))


def drop(stream: TextIO | None) -> None:
    """Discard further output to a stream that no longer accepts any."""
    if stream is None:
        return
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or not a real file
        return


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = error.filename
        if where is None and isinstance(error, FileNotFoundError):
            where = "the current folder"  # os.getcwd names none
        return f"{where}: {error.strerror}" if where else error.strerror
    line = " ".join(str(error).split())
    if len(line) <= MOST_CHARACTERS:
        return line
    return f"{line[: MOST_CHARACTERS // 2]} ... {line[-MOST_CHARACTERS // 2 :]}"


def prepare_output(*paths: Path | None, kind: Kind = "a result") -> None:
    """Make the folders of files to write; refuse early what could not be written later."""
    for path in filter(None, paths):
        if kind == "a report" and path.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{path}: the name must end in .html")
        if path.parent.exists() and not path.parent.is_dir():
            raise InputError(f"{path}: {path.parent} is a file, not a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        check_output(path, kind)
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{path}: its folder is not writable; name another")


def say(*lines: str) -> None:
    """Print lines with names of files in them; what a terminal would obey is replaced."""
    print(*map(visible, lines), sep="\n", flush=True)


def report(result: Mapping[str, Any], output: Path | None, kind: Kind) -> None:
    """Print a result for people, a line for each value, and, if asked, write it as JSON."""
    lines = [
        f"{name:<24} {value:.4f}" if isinstance(value, float) else f"{name:<24} {value}"
        for name, value in result.items()
        if not isinstance(value, Mapping)
    ]
    print_and_write(lines, result, output, kind)


def print_and_write(
    lines: Iterable[str], result: Mapping[str, Any], output: Path | None, kind: Kind
) -> None:
    """Print the lines of a result and, if asked, write it as JSON, even if nobody reads them."""
    try:
        say(*lines)
    finally:
        if output is not None:
            prepare_output(output, kind=kind)
            write_json(output, result, kind)
