"""What main.py, the scripts and the studies share: a dataclass of options as a command line."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import docstring_parser

from model.bounds import SAVED, Argument, check_bounds
from model.commands import program
from model.commands.parser import Parser
from model.commands.program import prepare_output, report
from model.errors import InputError
from training.parallel.launcher import report_failure

__all__ = ["check_unset", "parse", "parse_one_of", "prepare_output", "report", "run", "run_plain"]

Options = TypeVar("Options")
METAVARS: dict[Any, str] = {
    int: "INT",
    float: "NUMBER",
    str: "TEXT",
    Path: "PATH",
    bool: "{True,False}",
}
KINDS = {int: "a whole number", float: "a number", bool: "True or False"}


def parse(
    options: type[Options],
    doc: str | None = None,
    *,
    arguments: Sequence[str] | None = None,
    default: Options | None = None,
    program: str | None = None,
) -> Options:
    """Parse a command line into a dataclass; names of options may use `-` or `_`.

    doc: a script's docstring; the examples after its first paragraph end its --help. default: with
    it, every option takes a value, also True, False and None; without it, booleans are flags and no
    option takes None. Raises InputError for a word that is no option, and for a value of another
    type or out of the bounds of its type.
    """
    _, _, examples = cleandoc(doc or "").partition("\n\n")
    places = list(_places(options, default))
    words = "".join(f" {place.word}" for place in places if place.argument.positional)
    parser = Parser(
        prog=program,
        usage=f"{program or '%(prog)s'} [-h]{words} [OPTIONS]",
        description=cleandoc(options.__doc__ or ""),
        epilog=f"examples:\n{indent(examples, '  ')}" if examples else None,
    )
    for place in places:
        place.add_to(parser, takes_none=default is not None)
    parsed = _built(options, default, vars(parser.parse_args(arguments)))
    check_bounds(parsed, "--")
    return parsed


def parse_one_of(kinds: Mapping[str, type], doc: str | None = None) -> Any:
    """Parse a command line whose first word says which dataclass the others fill."""
    _, _, examples = cleandoc(doc or "").partition("\n\n")
    parser = Parser(
        description=cleandoc(doc or "").partition("\n\n")[0],
        epilog=f"examples:\n{indent(examples, '  ')}",
    )
    parser.add_argument("kind", choices=list(kinds), help="each has its own --help")
    kind = parser.parse_args(sys.argv[1:2]).kind
    return parse(kinds[kind], arguments=sys.argv[2:], program=f"{parser.prog} {kind}")


def check_unset(options: Any, names: Iterable[str], why: str) -> None:
    """Raise InputError, with `why`, for the first of these options that is not at its default."""
    defaults = {field.name: field.default for field in fields(options)}
    for name in names:
        if getattr(options, name) != defaults[name]:
            raise InputError(f"--{name.replace('_', '-')} {why}; leave it out")


def run(command: Callable[[], int | None]) -> None:
    """Run a command as `program.run` does; the launcher learns why it failed."""
    program.run(command, failed=report_failure)


def run_plain(command: Callable[[], int | None], doc: str | None) -> None:
    """Run a command that has no options: --help prints its docstring, all else is refused."""

    def parse_and_run() -> int | None:
        Parser(description=doc).parse_args()
        return command()

    run(parse_and_run)


@dataclass(frozen=True)
class _Place:
    """One option: a field of a dataclass, or of a dataclass nested in it."""

    path: str  # of the field: "run.optim.lr"
    name: str  # of the option: "optim.lr"
    section: str  # of the help: "optim"
    about: str  # what the section is
    hint: Any  # the field's type, with its annotations
    default: Any
    help: str

    @property
    def argument(self) -> Argument:
        """What the field's annotation says of the option."""
        return _argument(self.hint)

    @property
    def word(self) -> str:
        """What stands for a positional argument in the help."""
        return self.argument.metavar or self.name.upper()

    def add_to(self, parser: Parser, *, takes_none: bool) -> None:
        """Add the option to a parser, in the section of its help."""
        argument, required = self.argument, self.default is MISSING
        kind, is_optional = _without_none(_bare(self.hint))
        details: dict[str, Any] = {"help": (argument.help or self.help).replace("%", "%%")}
        if not required:
            details["default"] = self.default
        if kind is bool and not takes_none:
            details["action"] = argparse.BooleanOptionalAction if self.default else "store_true"
        else:
            details |= _reading(kind, is_optional=is_optional and takes_none)
        if argument.metavar:
            details["metavar"] = argument.metavar
        if argument.separator:
            details |= _separated(kind, argument.separator)
        if argument.positional:
            if not required and "nargs" not in details:
                details["nargs"] = "?"
            if required and details.get("nargs") == "*":
                details["nargs"] = "+"
            parser.add_argument(self.path, **details | {"metavar": self.word})
            return
        if required:
            details["required"] = True
        name = f"--{(argument.name or self.name).replace('_', '-')}"
        parser.names.add(name)
        parser.section(self.section, self.about).add_argument(name, dest=self.path, **details)


def _places(
    options: Any, default: Any, path: str = "", prefix: str = "", about: str = ""
) -> Iterator[_Place]:
    """Yield the options of a dataclass in order; in a nested dataclass they are `section.name`."""
    hints, help_of = get_type_hints(options, include_extras=True), _help_of(options)
    for item in fields(options):
        hint, value = hints[item.name], _default_of(item, default)
        if SAVED in getattr(hint, "__metadata__", ()):
            continue
        if is_dataclass(section := _bare(hint)):
            name = "" if _argument(hint).is_flat else f"{prefix}{item.name}."
            text = cleandoc(section.__doc__ or "").partition("\n\nRaises")[0]
            yield from _places(section, value, f"{path}{item.name}.", name, text)
            continue
        help_text = help_of.get(item.name, "")
        if value not in (None, ()):
            help_text = help_text.replace("Default: ", "If the config leaves it out: ")
        yield _Place(
            f"{path}{item.name}",
            f"{prefix}{item.name}",
            prefix.removesuffix("."),
            about,
            hint,
            value,
            help_text,
        )


def _built(options: type[Options], default: Any, parsed: Mapping[str, Any], path: str = "") -> Any:
    """Return the dataclass of the values that the parser has read."""
    hints, values = get_type_hints(options, include_extras=True), {}
    for item in fields(options):  # type: ignore[arg-type]
        hint, value = hints[item.name], _default_of(item, default)
        if is_dataclass(section := _bare(hint)):
            value = _built(section, value, parsed, f"{path}{item.name}.")  # type: ignore[arg-type]
        elif f"{path}{item.name}" in parsed:
            value = parsed[f"{path}{item.name}"]
            value = tuple(value) if isinstance(value, list) else value
        values[item.name] = value
    return options(**values)


@cache
def _help_of(options: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, each on one line."""
    owners = filter(is_dataclass, reversed(options.__mro__))
    params = [p for owner in owners for p in docstring_parser.parse_from_object(owner).params]
    return {p.arg_name: " ".join((p.description or "").split()) for p in params}


def _default_of(item: Field[Any], instance: object) -> Any:
    """Return a field's value in the default instance, or else the field's own default."""
    if hasattr(instance, item.name):
        return getattr(instance, item.name)
    return item.default if item.default_factory is MISSING else item.default_factory()


def _argument(hint: Any) -> Argument:
    """Return what a type's annotations say of the option."""
    notes = getattr(hint, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Argument)), Argument())


def _bare(hint: Any) -> Any:
    """Return a type without its annotations."""
    return _bare(hint.__origin__) if hasattr(hint, "__metadata__") else hint


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it had it."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    others = tuple(kind for kind in get_args(hint) if kind is not type(None))
    left = _bare(others[0]) if len(others) == 1 else Union[others]  # noqa: UP007
    return left, len(others) < len(get_args(hint))


def _reading(kind: Any, *, is_optional: bool) -> dict[str, Any]:
    """Return how argparse reads a type: its words, their number, and what the help shows."""
    if get_origin(kind) is tuple:
        item, *more = get_args(kind)
        number: str | int = "*" if more == [...] else 1 + len(more)
        return _reading(_bare(item), is_optional=False) | {"nargs": number}
    if get_origin(kind) is Union:  # a word, or several numbers: "even" or 1 2
        words, several = sorted(get_args(kind), key=lambda one: get_origin(one) is tuple)
        names, of = [*get_args(words)], _bare(get_args(several)[0])
        return {
            "nargs": "+",
            "action": _WordOrSeveral,
            "type": lambda word: word if word in names else _reader(of)(word),
            "metavar": "|".join([*names, METAVARS[of]]),
        }
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        named = {str(choice): choice for choice in choices}
        if is_optional:
            named["None"] = None
        return {
            "type": lambda word: named.get(word, word),
            "choices": list(named.values()),
            "metavar": f"{{{','.join(map(str, choices))}}}",
        }
    read, metavar = _reader(kind), METAVARS[kind]
    if is_optional:
        return {"type": lambda word: None if word == "None" else read(word), "metavar": metavar}
    return {"type": read, "metavar": metavar}


def _separated(kind: Any, separator: str) -> dict[str, Any]:
    """Return how argparse reads several values given as one word."""
    read = _reader(get_args(kind)[0])
    return {"nargs": None, "type": lambda word: tuple(map(read, word.split(separator)))}


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return what reads a value of a type from a word."""

    def read(word: str) -> Any:
        try:
            return {"True": True, "False": False}[word] if kind is bool else kind(word)
        except (KeyError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"{word!r} is not {KINDS[kind]}") from error

    return read


class _WordOrSeveral(argparse.Action):
    """Keeps one word as it is, and several values as a tuple."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        """Set the value."""
        alone = isinstance(values[0], str) and len(values) == 1
        if any(isinstance(value, str) for value in values) and not alone:
            parser.error(
                f"argument {option}: {' '.join(map(str, values))}: give one word or numbers"
            )
        setattr(namespace, self.dest, values[0] if alone else tuple(values))
