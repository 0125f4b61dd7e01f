"""The command `mlstm-sentiment` and its subcommands."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from importlib import import_module
from textwrap import indent
from typing import Any

from ..errors import InputError, suggestion
from ..files.shipped import find_model
from ..version import installed_version
from .parser import Parser, parse
from .program import run

PROGRAM = "mlstm-sentiment"
COMMANDS = {
    "classify": "classify the sentiment of texts",
    "report": "write a page about a table of texts, or about what classify wrote",
    "learn": "fit the classifier again to answers that you have corrected",
    "heatmap": "colour texts by what the sentiment unit holds after every character",
    "generate": "continue a prompt, with the sentiment clamped as you like",
    "featurize": "write the features of texts, for your own classifier",
    "evaluate": "score a model on text: bits per character",
    "demo": "write the model itself into one web page",
    "serve": "serve that page, and answers for programs, to this machine",
    "models": "list the models that are installed",
}


def main() -> None:
    run(lambda: dispatch(sys.argv[1:]))


def dispatch(words: Sequence[str]) -> None:
    """Run the command that the first word names with the options that follow."""
    listed = "\n".join(f"{name:<10} {what}" for name, what in COMMANDS.items())
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} COMMAND [options]",
        description="The sentiment neuron: a multiplicative LSTM that reads reviews.",
        epilog=f"commands, each with its own --help:\n{indent(listed, '  ')}",
    )
    version = installed_version() if "--version" in words else ""  # looked up only if asked for
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version}")
    parser.add_argument("command", nargs="?", default=None, help=argparse.SUPPRESS)
    if not words or set(words) == {"help"}:
        return parser.print_help()
    if words[0] == "help":
        words = [words[1], "--help"]
    name = parser.parse_known_args(words[:1])[0].command
    if name is None:
        raise InputError(_after_the_command(words))
    if name not in COMMANDS:
        raise InputError(
            f"no command {name!r}{suggestion(name, COMMANDS)}; known: {', '.join(COMMANDS)}"
        )
    module = import_module(f".{name}", __package__)
    command = (module.Options, module.run, module.__doc__, words[1:], f"{PROGRAM} {name}")
    copy_context().run(call, *command)  # what the command reads is forgotten with it


def _after_the_command(words: Sequence[str]) -> str:
    """Return the error for words that begin with an option, and their right order."""
    name = next((word for word in words if word in COMMANDS), None)
    if name is None:
        return f"options come after a command: {', '.join(COMMANDS)}"
    at = list(words).index(name)
    ordered = [PROGRAM, name, *words[:at], *words[at + 1 :]]
    return f"options come after the command: {shlex.join(ordered)}"


def call(
    kind: type,
    command: Callable[[Any], int | None],
    doc: str | None,
    words: Sequence[str] | None = None,
    program: str | None = None,
) -> int | None:
    """Read a command's options, a dataclass of this kind, and run it.

    doc: its examples, after the first paragraph, end the --help. words: if absent, those that
    Python was started with.
    """
    options: Any = parse(kind, doc, arguments=words, program=program)
    if hasattr(options, "model"):
        # An unknown model is refused before torch is loaded; a download happens only once.
        names = options.model
        paths = (
            tuple(str(find_model(name)) for name in names)
            if isinstance(names, tuple)
            else str(find_model(names))
        )
        options = replace(options, model=paths)
    return command(options)
