"""Turn files of reviews into a corpus: shuffled, split, as bytes.

python scripts/prepare_corpus.py reviews.jsonl.gz --output data/reviews --split 98,1,1
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import tyro

import command

from data_utils.preparation import prepare_corpus
from model.errors import InputError


@dataclass(frozen=True)
class Options:
    """Turn files of reviews into a corpus: shuffled, split, as bytes."""

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """JSON lines, CSV, TSV or text (a review a line), each also as .gz or .xz."""
    output: Path
    """The corpus folder to make; it must not exist."""
    text_key: str | None = None
    """Key of the text; absent, the first present of text, sentence, reviewText, review."""
    split: str = "1000,1,1"
    """Parts of train, valid and test."""
    seed: int = 0
    """Seeds the order of the reviews."""
    text_profile: str = "openai"
    """How a text is cleaned and framed: openai or raw."""
    strict: bool = False
    """Refuse bytes that are not UTF-8 instead of replacing and counting them."""


def main() -> None:
    options = command.parse(Options)
    if not options.inputs:
        raise InputError("no input files given")
    started = perf_counter()
    meta = prepare_corpus(
        options.inputs,
        options.output,
        text_key=options.text_key,
        split=parse_split(options.split),
        seed=options.seed,
        profile=options.text_profile,
        strict=options.strict,
    )
    for name, size in meta["splits"].items():
        print(f"{name:<6} {size['reviews']:>10,} reviews {size['bytes']:>14,} bytes")
    print(f"{options.output}: {perf_counter() - started:.1f} s")


def parse_split(text: str) -> tuple[float, ...]:
    """Read three comma-separated numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--split {text}: expected three numbers, as in 1000,1,1") from error


if __name__ == "__main__":
    command.run(main)
