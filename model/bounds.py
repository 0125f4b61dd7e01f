"""Bounds of settings: written beside a setting's type, checked in one place."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from numbers import Real
from typing import Annotated, Any, get_args, get_origin

from .errors import InputError, is_whole

MOST_BITS = 63  # of a whole number, as in TOML; a larger one may not fit a float


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
"""Marks a field, as in `heads: Annotated[int, SAVED]`, that files keep and only code sets: no
command has it as an option."""

PositiveInt = Annotated[int, Bound(min=1)]
NonNegativeInt = Annotated[int, Bound(min=0)]
PositiveFloat = Annotated[float, Bound(above=0)]
NonNegativeFloat = Annotated[float, Bound(min=0)]
Fraction = Annotated[float, Bound(min=0, below=1)]


def check_bounds(config: Any, section: str = "") -> None:
    """Raise InputError for the first number in a dataclass that is out of bounds or not finite.

    section: prefix of a field's name in the message: "optim." for a section of a config, "--" for
    the options of a command.
    """
    for item in fields(config):
        value, parts = getattr(config, item.name), list(_parts_of(item.type))
        bounds = [part for part in parts if isinstance(part, Bound)]
        name = section + (item.name.replace("_", "-") if section == "--" else item.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise InputError(f"{name} is {value}; it must be finite")
            if bounds and not isinstance(number, _other_types(parts)):
                _check(name, value, number, bounds, whole=int in parts)


def _check(name: str, value: Any, number: Any, bounds: list[Bound], *, whole: bool) -> None:
    wanted = " and ".join(map(str, bounds))
    if not isinstance(number, Real):
        raise InputError(f"{name} is {value!r}; it must be a number, {wanted}")
    if whole and not is_whole(number):
        raise InputError(f"{name} is {value}; it must be a whole number, {wanted}")
    if not all(bound.admits(number) for bound in bounds):
        raise InputError(f"{name} is {value}; it must be {wanted}")
    if isinstance(number, int) and number.bit_length() > MOST_BITS:
        raise InputError(f"{name} is too large a number; it must be below 2^{MOST_BITS}")


def _other_types(parts: list[Any]) -> tuple[type, ...]:
    """Return the types besides numbers that a setting may have, such as a path's or None's."""
    types = (part for part in parts if isinstance(part, type) and get_origin(part) is None)
    return tuple(part for part in types if part not in (int, float))


def _parts_of(hint: Any) -> Iterator[Any]:
    """Yield a type, the types and the annotations in it."""
    yield hint
    for part in get_args(hint):
        yield from _parts_of(part)


def _text(number: float) -> str:
    if number >= 1 << 20 and math.log2(number).is_integer():
        return f"2^{math.log2(number):.0f}"
    return f"{number:,.10g}" if number else "zero"
