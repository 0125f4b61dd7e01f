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
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from inspect import cleandoc, getsource
from itertools import pairwise, takewhile
from pathlib import Path
from textwrap import dedent, indent
from types import UnionType
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
        super().__init__(**options, allow_abbrev=False, formatter_class=_HelpFormatter)
        self.other_names: Mapping[str, str] = {}
        self.given = set[str]()  # options of one value that the command line has
        self._sections: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The long names of the options."""
        return [n for action in self._actions for n in action.option_strings if n[:2] == "--"]

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
        if unknown[0].startswith("-"):
            name = unknown[0].partition("=")[0]
            instead = self.other_names.get(name.rpartition(".")[2].lstrip("-").lower())
            return f"; use {instead}" if instead else suggestion(name, self.names)
        option, value = "--input", unknown[0]
        if option in self.given:
            return f"; {option} takes one file at a time"
        if option not in self.names or not os.path.exists(value):
            option = next((name for name in ("--text", "--prompt") if name in self.names), "")
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


class _Extend(argparse.Action):
    """Adds the values of an option that is repeated to those before; the default goes first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Add the values."""
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*(() if before is self.default else before), *values])


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows the default of every option that has one, and keeps the lines of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        nothing = action.default is False or action.default in (None, argparse.SUPPRESS, [], (), "")
        if not action.option_strings or nothing:  # 0 equals False, and is a default
            return action.help
        several = isinstance(action.default, (list, tuple))
        separator = getattr(action, "separator", " ")
        default = separator.join(map(str, action.default)) if several else "%(default)s"
        return f"{action.help} (default: {default})"


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
    hint: Any  # the field's type, with its annotations
    default: Any
    help: str

    @property
    def argument(self) -> Argument:
        return _argument(self.hint)

    @property
    def word(self) -> str:
        """What stands for a positional argument in the help."""
        return str(self.argument.metavar or self.name.upper())

    def add_to(self, parser: Parser, *, takes_none: bool, takes_words: bool = True) -> None:
        """Add the option to a parser, in the section of its help.

        takes_words: whether an option of several values may take all words that follow it; else,
        next to positional arguments, it is repeated.
        """
        argument, required = self.argument, self.default is MISSING
        kind, is_optional = _without_none(_bare(self.hint))
        is_flag = kind is bool and not takes_none
        details: dict[str, Any] = {"help": (argument.help or self.help).replace("%", "%%")}
        if not required:
            details["default"] = self.default
        if is_flag:
            has_both = self.default or is_optional
            details["action"] = argparse.BooleanOptionalAction if has_both else "store_true"
        elif argument.repeated:
            details |= _reading(_bare(get_args(kind)[0]), is_optional=False)
            details |= {"action": "append", "default": []}
        else:
            details |= _reading(kind, is_optional=is_optional and takes_none)
        if argument.metavar:
            details["metavar"] = argument.metavar
        if argument.separator:
            details |= _separated(kind, argument.separator)
        name = self.name.replace("_", "-")
        if self.name.rpartition(".")[2] in _TEXT_OPTIONS:
            details["type"] = partial(utf8_argument, option=f"--{name}")
        if argument.positional:
            if not required and "nargs" not in details:
                details["nargs"] = "?"
            if required and details.get("nargs") == "*":
                details["nargs"] = "+"
            parser.add_argument(self.path, **details | {"metavar": self.word})
            return
        if details.get("nargs") == "*":
            details["action"] = _Extend
            if self.default == ():
                details["nargs"] = "+" if takes_words else 1
        details.setdefault("action", _Once)
        if required:
            details["required"] = True
        section = parser.section(self.section, self.about)
        action = section.add_argument(f"--{name}", dest=self.path, **details)
        if argument.separator:
            action.separator = argument.separator  # for the help
        if details.get("action") == "store_true":  # its opposite is accepted, too
            hidden = {"action": "store_false", "help": argparse.SUPPRESS, "default": self.default}
            section.add_argument(f"--no-{name}", dest=self.path, **hidden)


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
    hints = get_type_hints(options, include_extras=True)
    help_of = _help_of(options) if with_help else {}
    for item in fields(options):
        hint, value = hints[item.name], default_of(item, default)
        if SAVED in getattr(hint, "__metadata__", ()):
            continue
        argument = _argument(hint)
        if is_dataclass(section := _bare(hint)) and not hasattr(section, "parse"):
            name = "" if argument.is_flat else f"{prefix}{item.name}."
            text = cleandoc(section.__doc__ or "").partition("\n\nRaises")[0]
            place = (f"{path}{item.name}.", name, text, argument.group)
            yield from _places(section, value, *place, with_help=with_help)
            continue
        help_text = help_of.get(item.name, "")
        if value not in (None, ()):
            help_text = help_text.replace("Default: ", "If the config leaves it out: ")
        yield _Place(
            f"{path}{item.name}",
            f"{prefix}{item.name}",
            prefix.removesuffix(".") or argument.group or group,
            about if prefix else "",
            hint,
            value,
            help_text,
        )


def _built(options: type[Options], default: Any, parsed: Mapping[str, Any], path: str = "") -> Any:
    hints, values = get_type_hints(options, include_extras=True), {}
    for item in fields(options):  # type: ignore[arg-type]
        hint, value = hints[item.name], default_of(item, default)
        if f"{path}{item.name}" in parsed:
            value = parsed[f"{path}{item.name}"]
            value = tuple(value) if isinstance(value, list) else value
        elif is_dataclass(section := _bare(hint)):
            value = _built(section, value, parsed, f"{path}{item.name}.")  # type: ignore[arg-type]
            if _argument(hint).is_flat:
                check_bounds(value, "--")
        values[item.name] = value
    return options(**values)


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


def _argument(hint: Any) -> Argument:
    notes = getattr(hint, "__metadata__", ())
    return next((note for note in reversed(notes) if isinstance(note, Argument)), Argument())


def _bare(hint: Any) -> Any:
    return _bare(hint.__origin__) if hasattr(hint, "__metadata__") else hint


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    others = tuple(kind for kind in get_args(hint) if kind is not type(None))
    left = _bare(others[0]) if len(others) == 1 else Union[others]  # noqa: UP007
    return left, len(others) < len(get_args(hint))


def _reading(kind: Any, *, is_optional: bool) -> dict[str, Any]:
    """Return argparse's settings for a type: converter, number of words, and metavar."""
    if get_origin(kind) is tuple:
        item, *more = get_args(kind)
        number: str | int = "*" if more == [...] else 1 + len(more)
        return _reading(_bare(item), is_optional=False) | {"nargs": number}
    if get_origin(kind) is Union:  # a word, or several numbers: "even" or 1 2
        words, several = sorted(get_args(kind), key=lambda one: get_origin(one) is tuple)
        names, number_kind = [*get_args(words)], _bare(get_args(several)[0])
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
    parse, metavar = _reader(kind), _METAVARS.get(kind)
    if is_optional:
        return {"type": lambda word: None if word == "None" else parse(word), "metavar": metavar}
    return {"type": parse, "metavar": metavar}


def _separated(kind: Any, separator: str) -> dict[str, Any]:
    """Return how argparse reads several values given as one word."""
    parse = _reader(get_args(kind)[0])
    return {"nargs": None, "type": lambda word: tuple(map(parse, word.split(separator)))}


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
