"""The command `mlstm-sentiment`: its subcommands, and the options that several of them have."""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import TypeVar, get_args

from ..errors import InputError, suggestion
from ..files.shipped import find_model
from ..layers.config import Precision
from ..reading.inputs import Quoting
from ..reading.texts import TEXT_KEYS
from ..version import installed_version
from .parser import Parser
from .program import run

Row = TypeVar("Row")
PROGRAM = "mlstm-sentiment"
KINDS_HELP = (
    "CSV, TSV, Excel, Parquet, Feather, JSON lines or text (one a line), also compressed (.gz, "
    ".bz2, .xz, .zst, .zip)"
)
COMMANDS = {
    "classify": "classify the sentiment of texts",
    "report": "write a page about a table of texts, or about what classify wrote",
    "heatmap": "colour texts by what the sentiment unit holds after every character",
    "generate": "continue a prompt, with the sentiment clamped as you like",
    "featurize": "write the features of texts, for your own classifier",
    "evaluate": "score a model on text: bits per character",
    "demo": "write the model itself into one web page",
    "serve": "serve that page, and answers for programs, to this machine",
    "models": "list the models that are installed",
}


def main() -> None:
    """Run the command line that Python was started with."""
    run(lambda: dispatch(sys.argv[1:]))


def dispatch(words: Sequence[str]) -> None:
    """Run the command that the first word names with the options that follow."""
    listed = "\n".join(f"{name:<10} {what}" for name, what in COMMANDS.items())
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} COMMAND [options]",
        description="The sentiment neuron: a byte-level multiplicative LSTM that reads reviews.",
        epilog=f"commands, each with its own --help:\n{indent(listed, '  ')}",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {installed_version()}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
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
    call(module.add_options, module.run, module.__doc__ or "", words[1:], f"{PROGRAM} {name}")


def _after_the_command(words: Sequence[str]) -> str:
    """Return the error for words that begin with an option, and their right order."""
    name = next((word for word in words if word in COMMANDS), None)
    if name is None:
        return f"options come after a command: {', '.join(COMMANDS)}"
    at = list(words).index(name)
    ordered = [PROGRAM, name, *words[:at], *words[at + 1 :]]
    return f"options come after the command: {shlex.join(ordered)}"


def call(
    add_options: Callable[["Parser"], None],
    command: Callable[[argparse.Namespace], None],
    doc: str,
    words: Sequence[str] | None = None,
    program: str | None = None,
) -> None:
    """Read a command's options and run it.

    doc: its last paragraph has examples, which end the --help; the rest describes the command.
    words: if absent, those that Python was started with.
    """
    about, _, examples = cleandoc(doc).rpartition("\n\n")
    parser = Parser(prog=program, description=about, epilog=f"examples:\n{indent(examples, '  ')}")
    add_options(parser)
    options = parser.parse_args(words)
    if hasattr(options, "model"):
        # An unknown model is refused before torch is loaded; a download happens only once.
        options.model = find_model(options.model)
    command(options)


READING: dict[str, str | None] = {
    **dict.fromkeys(("text_key", "delimiter", "encoding", "sheet")),
    "quoting": "auto",
}


def add_model(parser: Parser, *, device: bool = True) -> None:
    """Add --model and, if `device`, --device."""
    parser.add_argument(
        "--model",
        default="default",
        help="a model directory, a run directory, or the name of a shipped model",
    )
    if device:
        add_device(parser)


def add_device(parser: Parser) -> None:
    """Add --device."""
    parser.add_argument(
        "--device",
        default="auto",
        help="where it runs: cpu, cuda, cuda:1, mps; auto: a GPU, if any, else cpu",
    )


def add_classifier(parser: Parser) -> None:
    """Add the folder of the classifier."""
    parser.add_argument(
        "--classifier",
        type=Path,
        help="the folder of a classifier, or what transfer.py wrote (default: the one inside the "
        "model's folder, or transfer/ of its run)",
    )


def add_reading(parser: Parser) -> None:
    """Add the options for what a file of texts does not say about itself."""
    parser.add_argument(
        "--text-key",
        help=f"key of the text (default: the first present of {', '.join(TEXT_KEYS)}; else, in a "
        "table, the one column that is clearly prose)",
    )
    parser.add_argument(
        "--delimiter",
        help="for CSV and TSV: the character between cells, or the word tab (default: comma, "
        "semicolon, tab or vertical bar, whichever the first lines have)",
    )
    parser.add_argument(
        "--encoding",
        help="for text, CSV and JSON: utf-8, utf-16, cp1252 or another (default: UTF-8; UTF-16 if "
        "the file begins with its mark; cp1252 for a table that is not UTF-8)",
    )
    parser.add_argument(
        "--quoting",
        choices=get_args(Quoting),
        default="auto",
        help="for CSV and TSV: standard, cells may be quoted; none, quotes are ordinary "
        "characters; auto, standard unless the columns of a file with tabs fit only without",
    )
    parser.add_argument("--sheet", help="for a workbook: the sheet to read (default: the first)")


def refuse_reading(options: argparse.Namespace, why: str) -> None:
    """Raise InputError, with `why`, for an option of `add_reading` that is not at its default."""
    for name, usual in READING.items():
        if getattr(options, name) != usual:
            raise InputError(f"--{name.replace('_', '-')} {why}; leave it out")


def add_precision(parser: Parser) -> None:
    """Add the number format of the matrix products."""
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        default="fp32",
        help="number format of the matrix products. On a CPU, bf16 is faster than fp32 with "
        "AVX512-BF16 or AMX, int8 (8-bit integers in the recurrence) faster still with AVX512-VNNI "
        "or AMX; results change a little",
    )


def add_input(parser: Parser, *, required: bool = False, more: str = "") -> None:
    """Add a file of texts."""
    parser.add_argument("--input", required=required, help=f"texts: {KINDS_HELP}{more}")


@dataclass(frozen=True)
class Shard:
    """One of n parts of an input: rows i, i + n, i + 2 n and so on, counted from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, word: str) -> "Shard":
        """Return the shard that i/n names."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", word)
        number, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= count:
            raise argparse.ArgumentTypeError(f"{word!r} is not i/n, such as 1/8 to 8/8")
        return cls(number, count)

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield this shard's rows; InputError if the input has rows, but none in this shard."""
        index = -1
        for index, row in enumerate(rows):
            if index % self.count == self.number - 1:
                yield row
        if 0 <= index < self.number - 1:
            raise InputError(
                f"--shard {self.number}/{self.count}: the input has only {index + 1:,} rows; give "
                "fewer shards"
            )


def add_shard(parser: Parser) -> None:
    """Add the part of the input to read."""
    parser.add_argument(
        "--shard",
        type=Shard.parse,
        default="1/1",
        metavar="i/n",
        help="process only rows i, i + n, i + 2 n, ... of the input, for n commands on n machines "
        "(docs/cluster.md)",
    )


def add_by(parser: Parser) -> None:
    """Add the column of groups."""
    parser.add_argument("--by", help="column to group the counts at the end by")


def add_json_output(parser: Parser) -> None:
    """Add a file for the result."""
    parser.add_argument("--output", type=Path, help="JSON file for the result")
