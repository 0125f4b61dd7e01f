"""The argument parser of all our commands: argparse, with each error on one line."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ..errors import InputError, suggestion, utf8_argument

# Others may be paths.
TEXT_OPTIONS = {"text", "prompt", "title", "text_key", "label_key", "sheet", "by"}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that accepts `_` for `-` in option names; mistakes raise InputError."""

    def __init__(self, **options: Any):
        super().__init__(**options, allow_abbrev=False, formatter_class=_HelpFormatter)
        self.names = {"--help"}
        self._sections: dict[str, Any] = {}

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an option, or a positional argument."""
        if hasattr(self, "names"):  # --help comes before there are any
            self.names |= {name for name in names if name.startswith("--")}
        return super().add_argument(*names, **options)

    def section(self, name: str, about: str) -> Any:
        """Return the section of the help with this name; the options without one are first."""
        if name and name not in self._sections:
            self._sections[name] = self.add_argument_group(f"{name} options", about)
        return self._sections.get(name, self)

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        """Return the options; InputError for an unknown word, and for text that is not UTF-8."""
        words = map(_with_dashes, sys.argv[1:] if words is None else words)
        options, unknown = self.parse_known_args(list(words), namespace)
        if unknown:
            self.error(f"unknown: {unknown[0]}{self._hint(unknown)}")
        for dest in TEXT_OPTIONS & vars(options).keys():
            value, name = getattr(options, dest), f"--{dest.replace('_', '-')}"
            if isinstance(value, list):
                setattr(options, dest, [utf8_argument(word, name) for word in value])
            elif value is not None:
                setattr(options, dest, utf8_argument(value, name))
        return options

    def _hint(self, unknown: Sequence[str]) -> str:
        """Return a question about what unknown words may mean, or nothing."""
        if unknown[0].startswith("-"):
            return suggestion(unknown[0].partition("=")[0], self.names)
        option, value = "--input", unknown[0]
        if option not in self.names or not os.path.exists(value):
            option = next((name for name in ("--text", "--prompt") if name in self.names), "")
            value = " ".join(takewhile(lambda word: not word.startswith("-"), unknown))
        return f"; did you mean {option} {shlex.quote(value)}?" if option else ""

    def error(self, message: str) -> NoReturn:
        """Raise an InputError that points to the help."""
        raise InputError(f"{message}; see {self.prog} --help")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows the default of every option that has one, and keeps the lines of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        nothing = action.default is False or action.default in (None, argparse.SUPPRESS, [], (), "")
        if not action.option_strings or nothing:  # 0 equals False, and is a default
            return action.help
        several = isinstance(action.default, (list, tuple))
        default = " ".join(map(str, action.default)) if several else "%(default)s"
        return f"{action.help} (default: {default})"


def _with_dashes(word: str) -> str:
    """Return --text-key for --text_key, whatever follows its =. Words with spaces are a user's."""
    name, sign, value = word.partition("=")
    is_option = name.startswith("--") and len(name.split()) == 1
    return name.replace("_", "-") + sign + value if is_option else word
