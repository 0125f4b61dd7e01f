"""What every command shares: the command line, the log, and how errors of the user end."""

import io
import logging
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any, TypeVar, get_type_hints

import docstring_parser
import tyro
from tyro.constructors import (
    MISSING_NONPROP,
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from model.errors import InputError
from model.files.storage import write_json
from training.parallel.launcher import end_launcher

Options = TypeVar("Options")
USAGE_ERROR = 2  # the exit code of every error that a user can cause
INTERRUPTED = 130  # 128 + SIGINT
MOST_CHARACTERS = 1000  # of an error: a damaged file may hold a name as long as itself


REGISTRY = ConstructorRegistry()


@REGISTRY.struct_rule
def _options_of(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Describe a dataclass as tyro would, but for two things.

    The lines of an option's help are joined: tyro keeps their breaks, whatever the width. Where
    absence is the default, as the help then says in words, no "(default: None)" follows.
    """
    if not is_dataclass(info.type) or info.type.__module__.startswith("tyro"):
        return None  # of its own it has one, around a union of subcommands
    hints = get_type_hints(info.type, include_extras=True)
    help_of = _help_of(info.type)
    options = []
    for item in fields(info.type):
        default = _default_of(item, info.default)
        hint: Any = hints[item.name]
        if default in (None, ()):
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        options.append(StructFieldSpec(item.name, hint, default, help_of.get(item.name)))
    return StructConstructorSpec(instantiate=info.type, fields=tuple(options))


def _help_of(options: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, each on one line."""
    owners = filter(is_dataclass, reversed(options.__mro__))
    found = [p for owner in owners for p in docstring_parser.parse_from_object(owner).params]
    return {p.arg_name: " ".join((p.description or "").split()) for p in found}


def _default_of(item: Field[Any], instance: object) -> Any:
    """Return a field's value in the default instance where there is one, else its own default."""
    if hasattr(instance, item.name):
        return getattr(instance, item.name)
    if item.default_factory is not MISSING:
        return item.default_factory()
    return MISSING_NONPROP if item.default is MISSING else item.default


def parse(
    options: type[Options],
    doc: str | None = None,
    *,
    arguments: Sequence[str] | None = None,
    config: Sequence[Any] = (tyro.conf.DisallowNone,),
    **extra: Any,
) -> Options:
    """Parse a command line into a dataclass; `-` equals `_` in the names of options.

    doc: a script's docstring; what follows its first paragraph, the examples, ends its --help.
    """
    try:
        return tyro.cli(options, args=arguments, config=config, registry=REGISTRY, **extra)
    except SystemExit as end:
        _, _, examples = (doc or "").partition("\n\n")
        if not end.code and examples:  # it has printed the help
            print(f"examples:\n{indent(dedent(examples.strip(chr(10))), '  ')}")
        if end.code:
            end_launcher()
        raise


def run(command: Callable[[], int | None]) -> None:
    """Run a command and leave with its exit code.

    InputError and OSError (no such file, disk full) become one line on stderr and exit code 2; the
    former ends a launcher that would try again, too. A reader of stdout that has seen enough, as
    `head` has, ends the command without a word. What the encoding of stdout or stderr cannot say is
    printed as an escape.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        code = command() or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # while a full disk still becomes an error
    except (InputError, OSError) as error:
        code = 0 if isinstance(error, BrokenPipeError) and _reader_left() else USAGE_ERROR
        if code:
            rank = os.environ.get("RANK")
            place = f"[rank {rank}] " if rank else ""
            print(f"{place}error: {_one_line(error)}", file=sys.stderr, flush=True)
        if isinstance(error, InputError):
            end_launcher()
        _drop_stdout()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _reader_left() -> bool:
    """Return whether stdout is a pipe that nobody reads any more."""
    if not hasattr(select, "poll"):
        return True
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    return bool(stdout.poll(0))


def _drop_stdout() -> None:
    """Let what stdout could not take go nowhere, not into a second error when Python ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or none at all
        return


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    line = " ".join(str(error).split())
    if len(line) <= MOST_CHARACTERS:
        return line
    return f"{line[: MOST_CHARACTERS // 2]} ... {line[-MOST_CHARACTERS // 2 :]}"


def prepare_output(*paths: Path | None) -> None:
    """Make the folders of files to write; refuse early what could not be written after the work."""
    for path in filter(None, paths):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name a file in it")
        if path.parent.exists() and not path.parent.is_dir():
            raise InputError(f"{path}: {path.parent} is a file, not a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{path}: its folder may not be written to; name another")


def report(result: Mapping[str, Any], output: Path | None) -> None:
    """Print a result for people and, where asked, write it as JSON."""
    for name, value in result.items():
        if not isinstance(value, Mapping):
            print(f"{name:<24} {value:.4f}" if isinstance(value, float) else f"{name:<24} {value}")
    if output is not None:
        prepare_output(output)
        write_json(output, result)
