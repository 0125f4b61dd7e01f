"""The one error a user can cause, and the exit codes of commands."""

import os
import reprlib
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from importlib import import_module
from numbers import Integral
from typing import Any

TIME_IS_UP = ("SIGUSR1", "SIGUSR2", "SIGXCPU")  # what schedulers send before a time limit
_SHORTAGES = (  # of memory or address space, in the words of Python, torch and the loader
    *("can't start new thread", "out of memory", "failed to map segment", "std::bad_alloc"),
    *("can't allocate memory", "annot allocate memory", "cannot enable executable stack"),
)
_LONGEST_MESSAGE = 80  # characters of a library's message that ours repeats
# The exit codes of every command, besides 0 (done) and 128 + N (ended by signal N). They are
# explained in docs/use.md.
WRONG_REQUEST = 2
NOTHING_WORTH_KEEPING = 3
TEMPORARY_FAILURE = 75  # EX_TEMPFAIL: nothing is wrong with the request, start it again


class InputError(Exception):
    """Something that the user gave cannot be used: says what, where, and how to fix it.

    >>> try:
    ...     load_model("no-such-folder")
    ... except InputError as error:
    ...     print(type(error).__name__)
    InputError
    """

    exit_code = WRONG_REQUEST


class OutOfMemory(InputError):
    """This process may not have more memory or threads."""

    @classmethod
    def of(cls, error: BaseException) -> "OutOfMemory | None":
        """Return this error for one that says so in other words, of Python or a library; else None.

        >>> print(OutOfMemory.of(RuntimeError("can't start new thread")))
        not enough memory (can't start new thread); use smaller sizes, or raise ulimit -v
        """
        lines = [" ".join(line.split()) for line in str(error).splitlines()]
        reason = next((line for line in lines if any(words in line for words in _SHORTAGES)), "")
        if not (reason or isinstance(error, MemoryError)):
            return None
        why = f" ({reason or lines[0]})" if reason or lines else ""
        return cls(f"not enough memory{why}; use smaller sizes, or raise ulimit -v")


class TryAgain(InputError):
    """Another process has what this one needs; the same command may succeed later."""

    exit_code = TEMPORARY_FAILURE


class TimeIsUp(Exception):
    """A signal has ended, on every rank, a measurement that the next start repeats."""


class OtherVersion(InputError):
    """A file of another version of this project; the file is intact."""


def imported(module: str, what: str) -> Any:
    """Return a package that only some uses need; InputError if it is missing.

    what: that uses it, such as "workbooks need".
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = (error.name or module).partition(".")[0]
        raise InputError(f"{what} {package}: pip install {package}") from error


def brief(error: BaseException) -> str:
    """Return an error's message on one line, cut if it is long."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, Python's or NumPy's; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number as an int; InputError unless it is from `least` to `most`."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        bounds = f"of {least:,} or more" if most is None else f"from {least:,} to {most:,}"
        raise InputError(f"{name} is {reprlib.repr(value)}; it must be a whole number {bounds}")
    return int(value)


def checked_flag(name: str, value: Any) -> bool:
    """Return True or False, Python's or NumPy's, as a bool; InputError for any other value."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise InputError(f"{name} is {reprlib.repr(value)}; True or False")
    return bool(value)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise InputError, which lists the choices, unless the value is one of them."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; known: {', '.join(choices)}")


def nearest(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the end of an error: the candidate most like the word, else all candidates."""
    near = get_close_matches(word, list(candidates), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(candidates)}"


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """Return the end of an error: the candidate most like the word, or nothing."""
    near = get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def utf8_argument(word: str, option: str) -> str:
    """Return a word of the command line as UTF-8, in any locale.

    Python keeps bytes that the locale's encoding lacks as lone surrogates. Raises InputError, with
    the option, for bytes that are not UTF-8.
    """
    try:
        word.encode()
        return word
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(word).decode()
    except UnicodeError as error:
        raise InputError(
            f"{option} {word!a}: not UTF-8; put it into a file, and give its --encoding"
        ) from error
