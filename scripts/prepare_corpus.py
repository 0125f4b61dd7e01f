"""Turn reviews into a corpus: shuffled, split, as bytes or subwords; or check one.

python scripts/prepare_corpus.py reviews.jsonl.gz --output data/reviews --split 98,1,1
python scripts/prepare_corpus.py reviews.jsonl.gz --output data/pieces --tokenizer bpe
python scripts/prepare_corpus.py --check data/reviews
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import command

from data_utils.preparation.preparation import Preparation, check_corpus, prepare_corpus
from mlstm_sentiment.bounds import Argument, NonNegativeInt
from mlstm_sentiment.commands.options import Table, TextKey
from mlstm_sentiment.engine.cores import usable_cores
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions


@dataclass(frozen=True, kw_only=True)
class Options(Preparation):
    """Turn reviews into a corpus: shuffled, split, as bytes or subwords; or check one."""

    inputs: Annotated[tuple[str, ...], Argument(positional=True, metavar="INPUT")] = ()
    """JSON lines, a JSON array (.json), CSV, TSV, .xlsx, Parquet, Feather or text, each also as
    .gz, .bz2, .xz, .zst or .zip; files, folders, patterns in quotes. Left out are files of a folder
    or pattern with the word test in their name and, in a folder, hidden files and text files
    outside of its pos/ and neg/."""
    output: Path | None = None
    """The corpus folder to make; it must not exist."""
    check: Path | None = None
    """Do not prepare; check the files of this corpus folder against its description."""
    text_key: TextKey = ()
    table: Table = field(default_factory=TableOptions)
    workers: NonNegativeInt = 0
    """Processes that encode; 0 means one per core."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.check is not None:
        if options.inputs or options.output is not None:
            raise InputError("--check takes neither input files nor --output; leave them out")
        others = [item.name for item in fields(options) if item.name != "check"]
        command.check_unset(options, others, "is for preparing a corpus, not for --check")
        for name, size in check_corpus(options.check).items():
            print(f"{_size_line(name, size)}  as prepared")
    elif options.output is None or not options.inputs:
        raise InputError("give input files and --output FOLDER, or only --check FOLDER")
    else:
        started = perf_counter()
        workers = options.workers or usable_cores()
        meta = prepare_corpus(options.inputs, options.output, options, workers)
        for name, size in meta["splits"].items():
            print(_size_line(name, size))
        command.say(f"{options.output}: {perf_counter() - started:.1f} s")


def _size_line(name: str, size: Mapping[str, Any]) -> str:
    tokens = f" {size['tokens']:>14,} tokens" if "tokens" in size else ""
    return f"{name:<6} {size['reviews']:>10,} reviews {size['bytes']:>14,} bytes{tokens}"


if __name__ == "__main__":
    command.run(main)
