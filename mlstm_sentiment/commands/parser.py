"""The command line of all our commands: a dataclass of options, filled by argparse.

@dataclass(frozen=True, kw_only=True)
class Options:
    \"\"\"What --help says first.\"\"\"

    output: Path
    \"\"\"What --help says about --output.\"\"\"

options = parse(Options, __doc__)
"""

import argparse
import ast
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import partial
from inspect import cleandoc, getsource
from itertools import pairwise, takewhile
from pathlib import Path
from textwrap import dedent, indent
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from ..bounds import SAVED, Argument, check_bounds, default_of
from ..errors import InputError, suggestion, utf8_argument
from ..files.shipped import local_model
from ..files.writer import begin_reading, check_standard_output

Options = TypeVar("Options")
_METAVARS: dict[Any, str] = {
    int: "INT",
    float: "NUMBER",
    str: "TEXT",
    Path: "PATH",
    bool: "{True,False}",
}
KINDS = {int: "a whole number", float: "a number", bool: "True or False"}
_HELP = {"-h", "--help"}
_TEXT_OPTIONS = {"text", "prompt", "title", "text_key", "label_key", "sheet", "by"}
_MODELS = {"model", "start_from"}  # words that name models to read
_INPUTS = {"input", "inputs"}  # words that are paths to read
# Paths to write; all others are read.
_OUTPUTS = {"output", "report", "run_dir", "resume", "results", "work", "calibrate"}


def parse(
    options: type[Options],
    doc: str | None = None,
    *,
    arguments: Sequence[str] | None = None,
    default: Options | None = None,
    program: str | None = None,
    other_names: Mapping[str, str] | None = None,
) -> Options:
    """Parse a command line into a dataclass; names of options may use `-` or `_`.

    doc: a command's docstring; the examples after its first paragraph end its --help. default: with
    it, every option takes a value, also True, False and None; without it, booleans are flags and no
    option takes None. other_names: what to use instead of options that do not exist, by the last
    part of their names. Raises InputError for a word that is no option, and for a value of another
    type or out of the bounds of its type.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Help texts are read from source files, so only where they are shown.
    places = list(_places(options, default, with_help=not _HELP.isdisjoint(arguments)))
    words = "".join(f" {place.word}" for place in places if place.argument.positional)
    parser = Parser(
        prog=program,
        usage=f"{program or '%(prog)s'} [-h]{words} [OPTIONS]",
        description=cleandoc(options.__doc__ or ""),
        epilog=_examples(doc),
    )
    parser.other_names = other_names or {}
    for place in places:
        place.add_to(parser, takes_none=default is not None, takes_words=not words)
    parsed = _built(options, default, vars(parser.parse_args(arguments)))
    check_bounds(parsed, "--")
    inputs = list(_inputs_of(parsed))
    check_standard_output(inputs)
    begin_reading(inputs)
    return parsed


def _examples(doc: str | None) -> str | None:
    """Return what ends a command's --help: the rest of its docstring after the first paragraph."""
    examples = cleandoc(doc or "").partition("\n\n")[2]
    return f"examples:\n{indent(examples, '  ')}" if examples else None


def _inputs_of(options: Any) -> Iterator[Path]:
    """Yield the paths to read, of a model's name or run its folder."""
    for item in fields(options):
        value = getattr(options, item.name)
        values = value if isinstance(value, tuple) else [value]
        if is_dataclass(value):
            yield from _inputs_of(value)
        elif item.name in _MODELS:
            words = (each for each in values if isinstance(each, str | Path))
            yield from filter(None, map(local_model, words))
        elif item.name in _INPUTS:
            yield from (Path(each) for each in values if each is not None)
        elif item.name not in _OUTPUTS:
            yield from (each for each in values if isinstance(each, Path))


def parse_one_of(kinds: Mapping[str, type], doc: str | None = None) -> Any:
    """Parse a command line whose first word says which dataclass the others fill."""
    about = cleandoc(doc or "").partition("\n\n")[0]
    parser = Parser(description=about, epilog=_examples(doc))
    parser.add_argument("kind", choices=list(kinds), help="each has its own --help")
    kind = parser.parse_args(sys.argv[1:2]).kind
    return parse(kinds[kind], arguments=sys.argv[2:], program=f"{parser.prog} {kind}")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that accepts `_` for `-` in option names; mistakes raise InputError."""

    def __init__(self, **options: Any):
        # No defaults: the namespace has what the command line gives, and `_built` adds the others.
        super().__init__(
            **options,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.other_names: Mapping[str, str] = {}
        self.given = set[str]()  # options of one value that the command line has
        self._sections: dict[str, Any] = {}

    def section(self, name: str, about: str) -> Any:
        """Return the section of the help with this name; the options without one are first."""
        if name and name not in self._sections:
            self._sections[name] = self.add_argument_group(f"{name} options", about or None)
        return self._sections.get(name, self)

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        """Return the options; InputError for an unknown word."""
        words = map(_with_dashes, sys.argv[1:] if words is None else words)
        options, unknown = self.parse_known_args(list(words), namespace)
        if unknown:
            self.error(f"unknown: {unknown[0]}{self._hint(unknown)}")
        return options

    def _hint(self, unknown: Sequence[str]) -> str:
        names = [name for name in self._option_string_actions if name.startswith("--")]
        if unknown[0].startswith("-"):
            name = unknown[0].partition("=")[0]
            instead = self.other_names.get(name.rpartition(".")[2].lstrip("-").lower())
            return f"; use {instead}" if instead else suggestion(name, names)
        option, value = "--input", unknown[0]
        if option in self.given:
            return f"; {option} takes one file at a time"
        if option not in names or not os.path.exists(value):
            option = next((name for name in ("--text", "--prompt") if name in names), "")
            value = " ".join(takewhile(lambda word: not word.startswith("-"), unknown))
        return f"; did you mean {option} {shlex.quote(value)}?" if option else ""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


class _Once(argparse.Action):
    """Keeps the value of an option that may be given once."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Keep the value."""
        if option in parser.given:
            parser.error(f"argument {option}: given twice; give it once")
        parser.given.add(option)
        setattr(namespace, self.dest, values)


def _with_dashes(word: str) -> str:
    """Return --text-key for --text_key, whatever follows its =. Words with spaces are a user's."""
    name, sign, value = word.partition("=")
    is_option = name.startswith("--") and len(name.split()) == 1
    return name.replace("_", "-") + sign + value if is_option else word


@dataclass(frozen=True)
class _Place:
    """One option: a field of a dataclass, or of a dataclass nested in it."""

    path: str  # of the field: "run.optim.lr"
    name: str  # of the option: "optim.lr"
    section: str  # of the help: "optim"
    about: str  # what the section is
    kind: Any  # the field's type, without its annotations
    argument: Argument
    default: Any
    help: str

    def add_to(self, parser: Parser, *, takes_none: bool, takes_words: bool = True) -> None:
        """Add the option to a parser, in the section of its help.

        takes_words: whether an option of several values may take all words that follow it; else,
        next to positional arguments, it is repeated.
        """
        argument, required = self.argument, self.default is MISSING
        kind, is_optional = _without_none(self.kind)
        details: dict[str, Any] = {"help": self._help()}
        if kind is bool and not takes_none:
            has_both = self.default or is_optional
            details["action"] = argparse.BooleanOptionalAction if has_both else "store_true"
        elif argument.repeated:
            details |= _reading(get_args(kind)[0]) | {"action": "append"}
        else:
            details |= _reading(kind, is_optional=is_optional and takes_none)
        if argument.metavar:
            details["metavar"] = argument.metavar
        if argument.separator:
            read_part, separator = _reader(get_args(kind)[0]), argument.separator
            details["type"] = lambda word: tuple(map(read_part, word.split(separator)))
            details["nargs"] = None
        name = self.name.replace("_", "-")
        if self.name.rpartition(".")[2] in _TEXT_OPTIONS:
            details["type"] = partial(utf8_argument, option=f"--{name}")
        if argument.positional:
            if not required and "nargs" not in details:
                # Python 3.11 would convert SUPPRESS to the option's type.
                details |= {"nargs": "?", "default": self.default}
            if required and details.get("nargs") == "*":
                details["nargs"] = "+"
            parser.add_argument(self.path, **details | {"metavar": self.word})
            return
        if details.get("nargs") == "*":
            details["action"] = "extend"
            if self.default == ():
                details["nargs"] = "+" if takes_words else 1
        details.setdefault("action", _Once)
        section = parser.section(self.section, self.about)
        section.add_argument(f"--{name}", dest=self.path, required=required, **details)
        if details["action"] == "store_true":  # its opposite is accepted, too
            hidden = {"action": "store_false", "help": argparse.SUPPRESS}
            section.add_argument(f"--no-{name}", dest=self.path, **hidden)

    @property
    def word(self) -> str:
        """What stands for a positional argument in the help."""
        return str(self.argument.metavar or self.name.upper())

    def _help(self) -> str:
        """Return what the help says: if the option has a default, this too."""
        text, default = self.argument.help or self.help, self.default
        is_shown = default is not False and default not in (MISSING, None, (), "")
        if is_shown and not self.argument.positional:  # 0 equals False, and is a default
            values = default if isinstance(default, tuple) else [default]
            text += f" (default: {(self.argument.separator or ' ').join(map(str, values))})"
        return text.replace("%", "%%")


def _places(
    options: Any,
    default: Any,
    path: str = "",
    prefix: str = "",
    about: str = "",
    group: str = "",
    *,
    with_help: bool,
) -> Iterator[_Place]:
    kinds, help_of = get_type_hints(options), _help_of(options) if with_help else {}
    for item, argument in _options_of(options):
        kind, value = kinds[item.name], default_of(item, default)
        if _is_section(kind):
            name = "" if argument.is_flat else f"{prefix}{item.name}."
            text = cleandoc(kind.__doc__ or "").partition("\n\nRaises")[0]
            place = (f"{path}{item.name}.", name, text, argument.group)
            yield from _places(kind, value, *place, with_help=with_help)
            continue
        help_text = help_of.get(item.name, "")
        if value not in (None, ()):
            help_text = help_text.replace("Default: ", "If the config leaves it out: ")
        yield _Place(
            f"{path}{item.name}",
            f"{prefix}{item.name}",
            prefix.removesuffix(".") or argument.group or group,
            about if prefix else "",
            kind,
            argument,
            value,
            help_text,
        )


def _built(options: type[Options], default: Any, given: Mapping[str, Any], path: str = "") -> Any:
    kinds = get_type_hints(options)
    values = {item.name: default_of(item, default) for item in fields(options)}  # type: ignore[arg-type]
    for item, argument in _options_of(options):
        name, place = item.name, f"{path}{item.name}"
        if place in given:
            value = given[place]
            values[name] = tuple(value) if isinstance(value, list) else value
        elif _is_section(kinds[name]):
            values[name] = _built(kinds[name], values[name], given, f"{place}.")
            if argument.is_flat:
                check_bounds(values[name], "--")
    return options(**values)


def _options_of(options: Any) -> Iterator[tuple[Field[Any], Argument]]:
    """Yield the fields of a dataclass that are options, each with how it becomes one."""
    hints = get_type_hints(options, include_extras=True)
    for item in fields(options):
        notes = getattr(hints[item.name], "__metadata__", ())
        if SAVED not in notes:
            arguments = (note for note in reversed(notes) if isinstance(note, Argument))
            yield item, next(arguments, Argument())


def _is_section(kind: Any) -> bool:
    """Return whether a field's type is a dataclass whose fields are options."""
    return is_dataclass(kind) and not hasattr(kind, "parse")


def _help_of(options: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, each on one line."""
    texts = {}
    for owner in filter(is_dataclass, reversed(options.__mro__)):
        body: list[ast.stmt] = []
        with suppress(OSError):  # of a class without a source file
            body = ast.parse(dedent(getsource(owner))).body[0].body  # type: ignore[attr-defined]
        for item, doc in pairwise(body):
            is_doc = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and is_doc:
                texts[item.target.id] = " ".join(str(doc.value.value).split())  # type: ignore[attr-defined]
    return texts


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    others = tuple(one for one in get_args(kind) if one is not NoneType)
    return Union[others], len(others) < len(get_args(kind))  # noqa: UP007


def _reading(kind: Any, *, is_optional: bool = False) -> dict[str, Any]:
    """Return argparse's settings for a type: converter, number of words, and metavar."""
    if get_origin(kind) is tuple:
        item, *more = get_args(kind)
        number: str | int = "*" if more == [...] else 1 + len(more)
        return _reading(item) | {"nargs": number}
    if get_origin(kind) is Union:  # a word, or several numbers: "even" or 1 2
        words, several = sorted(get_args(kind), key=lambda one: get_origin(one) is tuple)
        names, number_kind = [*get_args(words)], get_args(several)[0]
        return {
            "nargs": "+",
            "action": _WordOrSeveral,
            "type": lambda word: word if word in names else _reader(number_kind, names)(word),
            "metavar": "|".join([*names, _METAVARS[number_kind]]),
        }
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        values = {str(choice): choice for choice in choices}
        if is_optional:
            values["None"] = None
        return {
            "type": lambda word: values.get(word, word),
            "choices": list(values.values()),
            "metavar": f"{{{','.join(map(str, choices))}}}",
        }
    parse = _reader(kind)
    reader = (lambda word: None if word == "None" else parse(word)) if is_optional else parse
    return {"type": reader, "metavar": _METAVARS.get(kind)}


def _reader(kind: Any, names: Sequence[str] = ()) -> Callable[[str], Any]:
    """Return what reads a value of a type from a word; names: words that are read elsewhere."""

    def read(word: str) -> Any:
        try:
            if hasattr(kind, "parse"):
                return kind.parse(word)
            return {"True": True, "False": False}[word] if kind is bool else kind(word)
        except (KeyError, ValueError, InputError) as error:
            if kind not in KINDS:
                raise argparse.ArgumentTypeError(str(error)) from error
            words = f"{', '.join(names)} or " if names else ""
            raise argparse.ArgumentTypeError(f"{word!r} is not {words}{KINDS[kind]}") from error

    return read


class _WordOrSeveral(_Once):
    """Keeps one word as it is, and several values as a tuple."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        alone = isinstance(values[0], str) and len(values) == 1
        if any(isinstance(value, str) for value in values) and not alone:
            parser.error(
                f"argument {option}: {' '.join(map(str, values))}: give one word or numbers"
            )
        super().__call__(parser, namespace, values[0] if alone else tuple(values), option)
