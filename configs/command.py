"""What every command shares: the command line, the log, and how errors of the user end."""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

from model.errors import InputError
from model.storage import write_json

Options = TypeVar("Options")
USAGE_ERROR = 2  # the exit code of every error that a user can cause
INTERRUPTED = 130  # 128 + SIGINT


def parse(options: type[Options], arguments: Sequence[str] | None = None, **extra: Any) -> Options:
    """Parse a command line into a dataclass; `-` equals `_` in the names of options."""
    return tyro.cli(options, args=arguments, **extra)


def run(command: Callable[[], int | None]) -> None:
    """Run a command and leave with its exit code.

    InputError and OSError (no such file, disk full) become one line on stderr and exit code 2.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        code = command() or 0
    except (InputError, OSError) as error:
        rank = os.environ.get("RANK")
        place = f"[rank {rank}] " if rank else ""
        print(f"{place}error: {_one_line(error)}", file=sys.stderr)
        code = USAGE_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split())


def report(result: Mapping[str, Any], output: Path | None) -> None:
    """Print a result for people and, where asked, write it as JSON."""
    for name, value in result.items():
        if not isinstance(value, Mapping):
            print(f"{name:<24} {value:.4f}" if isinstance(value, float) else f"{name:<24} {value}")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_json(output, result)
