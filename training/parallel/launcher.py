"""Reports to torch.distributed.run, if it started this process, how it ends."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_content, write_json

_GRACE = 5.0  # seconds in which a launcher ends its other processes after one of them has failed
HOW_TO_LAUNCH = (
    "start the ranks with torch.distributed.run, or unset WORLD_SIZE, RANK and LOCAL_RANK"
)


class MissingGpu(InputError):
    """A rank has no GPU of its own: the command asks for too many, or one was lost."""


def is_launched() -> bool:
    """Return whether torch.distributed.run, which waits for this process, has started it."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def may_restart() -> bool:
    """Return whether a launcher restarts this process when a rank fails or a node joins."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def print_error(line: str) -> None:
    """Print a line on stderr; ignore a closed stderr."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def report_failure(error: BaseException, line: str, grace: float = _GRACE) -> None:
    """Report in one line why this process ends, where a launcher prints it last.

    grace: seconds that any rank but the first waits for the launcher to end it.
    torch.distributed.run prints its own traceback, then a paragraph for each process that failed;
    the last one ends with the content of the process's error file.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # empty under --log-dir /dev/null
    if file and os.environ.get("LOCAL_RANK") != "0":
        _leave_it_to_the_first(Path(file), grace)
    print_error(line)
    if file:
        details = {"py_callstack": line, "timestamp": str(int(time.time()))}
        message = {"message": line, "errorCode": 0, "extraInfo": details}
        with suppress(OSError):  # its disk may be full
            write_json(Path(file), {"message": message}, None)
    if isinstance(error, InputError):  # a restart would end in the same way
        end_launcher(error.exit_code)


def end_launcher(code: int) -> None:
    """End a launcher that would start this process again in vain, with this exit code."""
    if may_restart():
        if file := os.environ.get("MLSTM_EXIT_CODE"):  # of scripts/elastic.sh
            with suppress(OSError):
                write_content(Path(file), str(code), None)
        os.kill(os.getppid(), signal.SIGTERM)


def _leave_it_to_the_first(file: Path, grace: float) -> None:
    """Wait for the launcher to end this process; exit silently if the first one has failed too.

    A user's mistake usually raises the same error in all processes. If the first process has no
    error file, it has only lost this one, which then continues, to report why.
    """
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
    deadline = time.monotonic() + grace
    while not asked_to_end and time.monotonic() < deadline:
        time.sleep(0.05)
    first = file.parent.with_name("0") / file.name
    if asked_to_end and first.is_file():
        os._exit(0)  # no failure: the launcher lists failed ones
