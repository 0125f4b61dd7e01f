"""What the scripts share: tyro turns a dataclass of options into a command line."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
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

from model.bounds import SAVED, check_bounds
from model.commands import program
from model.commands.program import prepare_output, report
from model.errors import InputError
from training.parallel.launcher import end_launcher, report_failure

__all__ = ["parse", "prepare_output", "refuse_given", "report", "run", "run_plain"]

Options = TypeVar("Options")
REGISTRY = ConstructorRegistry()


@REGISTRY.struct_rule
def _options_of(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Describe a dataclass as tyro would, with three differences.

    The lines of an option's help are joined: tyro keeps their breaks, whatever the width. If the
    default is None, the help explains it in words, and "(default: None)" is left out. A config may
    have another default; then those words are about configs without the key. A field marked as
    `SAVED` is no option: it keeps its default.
    """
    if not is_dataclass(info.type) or info.type.__module__.startswith("tyro"):
        return None  # tyro wraps a union of subcommands in its own dataclass
    hints = get_type_hints(info.type, include_extras=True)
    help_of = _help_of(info.type)
    options, saved = [], {}
    for item in fields(info.type):
        default = _default_of(item, info.default)
        hint: Any = hints[item.name]
        if SAVED in getattr(hint, "__metadata__", ()):
            saved[item.name] = default
            continue
        text = help_of.get(item.name)
        if default in (None, ()):
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        elif text is not None:
            text = text.replace("Default: ", "If the config leaves it out: ")
        options.append(StructFieldSpec(item.name, hint, default, text))
    return StructConstructorSpec(partial(info.type, **saved), fields=tuple(options))


def refuse_given(options: Any, names: Iterable[str], why: str) -> None:
    """Raise InputError, with `why`, for the first of these options that is not at its default."""
    defaults = {field.name: field.default for field in fields(options)}
    for name in names:
        if getattr(options, name) != defaults[name]:
            raise InputError(f"--{name.replace('_', '-')} {why}; leave it out")


@cache  # tyro asks several times, and each parses the source
def _help_of(options: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, each on one line."""
    owners = filter(is_dataclass, reversed(options.__mro__))
    found = [p for owner in owners for p in docstring_parser.parse_from_object(owner).params]
    return {p.arg_name: " ".join((p.description or "").split()) for p in found}


def _default_of(item: Field[Any], instance: object) -> Any:
    """Return a field's value in the default instance, or else the field's own default."""
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
    """Parse a command line into a dataclass; names of options may use `-` or `_`.

    doc: a script's docstring; the examples after its first paragraph end its --help. Raises
    InputError for an option that is out of the bounds of its type.
    """
    try:
        with redirect_stdout(sys.stdout or sys.stderr):  # where stdout is closed, tyro fails
            parsed = tyro.cli(options, args=arguments, config=config, registry=REGISTRY, **extra)
    except SystemExit as end:
        _, _, examples = (doc or "").partition("\n\n")
        if not end.code and examples:  # it has printed the help
            print(f"examples:\n{indent(dedent(examples.strip(chr(10))), '  ')}")
        if end.code:
            end_launcher()
        raise
    if is_dataclass(parsed):
        check_bounds(parsed, "--")
    return parsed


def run(command: Callable[[], int | None]) -> None:
    """Run a command as `program.run` does; the launcher learns why it failed."""
    program.run(command, failed=report_failure)


def run_plain(command: Callable[[], int | None], doc: str | None) -> None:
    """Run a command that has no options: --help prints its docstring, all else is refused."""
    described = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=doc, formatter_class=described).parse_args()
    run(command)
