"""Checks values against the types and bounds that a dataclass declares.

Used for run configs, for descriptions of models, classifiers and corpora, and for the counters in
checkpoints.
"""

import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from numbers import Real
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import InputError, OtherVersion, is_whole, nearest

_MOST_BITS = 63  # of a whole number, as in TOML; a larger one may not fit a float


@dataclass(frozen=True)
class Bound:
    """The range of a number, as in `lanes: Annotated[int, Bound(min=1)]`."""

    min: float | None = None
    above: float | None = None
    max: float | None = None
    below: float | None = None

    def admits(self, number: Any) -> bool:
        """Return whether a number is in the range; NaN is in none."""
        return (
            (self.min is None or number >= self.min)
            and (self.above is None or number > self.above)
            and (self.max is None or number <= self.max)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        ends = {"at least": self.min, "above": self.above, "at most": self.max, "below": self.below}
        return " and ".join(f"{word} {_text(end)}" for word, end in ends.items() if end is not None)


SAVED = "saved"
"""Marks a field that files store but only code sets, as in `heads: Annotated[int, SAVED]`: it is
not an option of any command."""


@dataclass(frozen=True)
class Closed:
    """A key that earlier versions had, as in `CLOSED = {"on_spike": Closed("94c10db0", "report")}`.

    A file may still have it with its default, which changes nothing. Any other value is refused.
    """

    revision: str  # the last one that has it
    default: object = None
    is_counter: bool = False  # of a run: it cannot be left out


@dataclass(frozen=True)
class Argument:
    """How a field becomes an option, as in `source: Annotated[Path, Argument(positional=True)]`."""

    help: str | None = None  # absent: the field's docstring
    metavar: str | tuple[str, ...] | None = None
    separator: str | None = None  # between the values of a tuple, given as one word
    positional: bool = False
    repeated: bool = False  # of a tuple: the option is given once for each value
    group: str = ""  # the section of the help
    is_flat: bool = False  # of a dataclass: its options have no prefix


PositiveInt = Annotated[int, Bound(min=1)]
NonNegativeInt = Annotated[int, Bound(min=0)]
PositiveFloat = Annotated[float, Bound(above=0)]
NonNegativeFloat = Annotated[float, Bound(min=0)]
Fraction = Annotated[float, Bound(min=0, below=1)]
Probability = Annotated[float, Bound(min=0, max=1)]

Filled = TypeVar("Filled")


def fill(kind: type[Filled], content: object, place: object, prefix: str = "") -> Filled:
    """Build a dataclass, and those nested in it, from the content of a JSON or TOML file.

    kind: if it has `OTHER_KEYS = True`, unknown keys are ignored; `CLOSED` has those of earlier
    versions. place, prefix: the file and the section to name in errors. Raises InputError for an
    unknown or a missing key, and for a value of another type or out of bounds.
    """
    try:
        return _filled(kind, content, prefix)
    except InputError as error:
        raise type(error)(f"{place}: {error}") from error


def _filled(kind: type[Filled], content: object, prefix: str) -> Filled:
    if not isinstance(content, Mapping):
        section = prefix.removesuffix(".")
        raise InputError(f"{section} is {reprlib.repr(content)}; it must be a section")
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in names}
    values, closed = {}, getattr(kind, "CLOSED", dict[str, Closed]())
    for key, value in content.items():
        name = key.replace("-", "_")
        if name in values:
            raise InputError(f"{prefix}{name} is given twice, with - and with _; leave one out")
        if name in hints:
            values[name] = _converted(hints[name], value, f"{prefix}{key}")
        elif name in closed:
            if value != closed[name].default:
                raise OtherVersion(
                    f"{prefix}{key} is {reprlib.repr(value)}, but this key is closed; "
                    f"{'' if closed[name].is_counter else 'leave it out, or '}use revision "
                    f"{closed[name].revision}, which has it"
                )
        elif not hasattr(kind, "OTHER_KEYS"):
            raise InputError(f"unknown key {prefix}{key}{nearest(name, hints)}")
    for item in fields(kind):  # type: ignore[arg-type]
        required = item.default is item.default_factory is MISSING
        if required and item.name not in values:
            raise InputError(f"{prefix}{item.name} is missing")
    config = kind(**values)
    check_bounds(config, prefix)
    return config


def _converted(hint: Any, value: Any, key: str) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    section = next((o for o in options if isinstance(o, type) and is_dataclass(o)), None)
    if section is not None and not (value is None and type(None) in options):
        return _filled(section, value, f"{key}.")
    if (row := _row_of(hint)) and isinstance(value, list):
        return tuple(_converted(row, item, f"{key}[{n}]") for n, item in enumerate(value))
    if Path in options and isinstance(value, str):
        return Path(os.fsdecode(value.encode()))
    if isinstance(value, list) and any(get_origin(option) is tuple for option in options):
        value = tuple(value)  # the files have arrays only
    if hint is float and is_whole(value):  # NumPy cannot multiply by 10^30, and by 1e30 it can
        with suppress(OverflowError):
            return float(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise InputError(f"{key} is too large a number")
    if not _fits(value, hint):
        raise InputError(f"{key} is {reprlib.repr(value)}; it must be {_in_words(hint)}")
    return value


def _in_words(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_in_words, args))
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}" if args[1:] else str(args[0])
    if origin in (tuple, list):
        several = "a list" if origin is list or args[1:] == (...,) else f"a list of {len(args)}"
        return f"{several}, each {_in_words(args[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    words |= {dict: "a section", type(None): "absent", Path: "a path"}
    return words.get(origin or hint, "a section")


def _row_of(hint: Any) -> Any:
    """Return the dataclass D if the hint is tuple[D, ...], else None."""
    row, *rest = get_args(hint) or (None,)
    is_rows = get_origin(hint) is tuple and rest == [...]
    return row if is_rows and is_dataclass(row) else None


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value has a type. True is not a number; a whole number is also a float."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is None:
        return hint is Any or value is None
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in args)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if not isinstance(value, origin or hint):
        return False
    if origin is tuple:
        hints = args[:1] * len(value) if args[1:] == (...,) else args
        return len(hints) == len(value) and all(map(_fits, value, hints))
    if origin is dict:
        return all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    return origin is not list or all(_fits(item, args[0]) for item in value)


def check_bounds(config: Any, section: str = "") -> None:
    """Raise InputError for the first number in a dataclass that is out of bounds or not finite.

    So it does if both fields are given that EXCLUSIVE of its class names.

    section: prefix of a field's name in the message: "optim." for a section of a config, "--" for
    the options of a command.
    """
    for item in fields(config):
        value, parts = getattr(config, item.name), list(_parts_of(item.type))
        bounds = [part for part in parts if isinstance(part, Bound)]
        name = section + (item.name.replace("_", "-") if section == "--" else item.name)
        takes_several = any(part is tuple or get_origin(part) is tuple for part in parts)
        types = {part for part in parts if isinstance(part, type) and get_origin(part) is None}
        others = tuple(types - {int, float})  # such as Path or NoneType
        for number in value if takes_several and isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise InputError(f"{name} is {value}; it must be finite")
            if bounds and not isinstance(number, others):
                _check(name, value, number, bounds, whole=int in parts)
    pair = [name for name in getattr(config, "EXCLUSIVE", ()) if getattr(config, name) is not None]
    if len(pair) > 1:
        raise InputError(f"{section}{f' and {section}'.join(pair)} are both given; give only one")


def _check(name: str, value: Any, number: Any, bounds: list[Bound], *, whole: bool) -> None:
    allowed = " and ".join(map(str, bounds))
    if not isinstance(number, Real) or isinstance(number, bool):
        raise InputError(f"{name} is {value!r}; it must be a number, {allowed}")
    if whole and not is_whole(number):
        raise InputError(f"{name} is {value}; it must be a whole number, {allowed}")
    if not all(bound.admits(number) for bound in bounds):
        raise InputError(f"{name} is {value}; it must be {allowed}")
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise InputError(f"{name} is too large a number; it must be below 2^{_MOST_BITS}")


def _parts_of(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts_of(part)


def _text(number: float) -> str:
    if number >= 1 << 20 and math.log2(number).is_integer():
        return f"2^{math.log2(number):.0f}"
    return f"{number:,.10g}" if number else "zero"


def default_of(item: Field[Any], instance: object = None) -> Any:
    """Return the default of a field; instance: holds other defaults by the fields' names."""
    if hasattr(instance, item.name):
        return getattr(instance, item.name)
    return item.default if item.default_factory is MISSING else item.default_factory()


def check_unset(options: Any, names: Iterable[str], why: str) -> None:
    """Raise InputError, with `why`, for the first of these options that is not at its default."""
    for item in fields(options):
        if item.name not in names:
            continue
        value = getattr(options, item.name)
        if is_dataclass(value):
            check_unset(value, [each.name for each in fields(value)], why)
        elif value != default_of(item):
            raise InputError(f"--{item.name.replace('_', '-')} {why}; leave it out")
