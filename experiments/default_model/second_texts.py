"""Select texts for a second training: some of the first, and many new everyday sentences.

python -m experiments.default_model.second_texts data/default --output data/second
"""

import random
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.texts import (
    Example,
    counted,
    new_sentences,
    read_examples,
    write_examples,
)
from model.files.storage import write_json

KEPT = {"sst": 7000, "imdb": 2000, "amazon": 4000, "titles": 4000}  # most texts of each source


@dataclass(frozen=True)
class Options:
    """Write train.jsonl and a report; copy val.jsonl of the first training."""

    texts: Annotated[Path, tyro.conf.Positional]
    """The folder that experiments.default_model.texts wrote."""
    output: Path
    """The folder to write."""
    sentences: int = 30_000
    """Number of new sentences of the grammar."""
    seed: int = 1
    """Seed of all draws; it differs from that of the first training."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = random.Random(options.seed)
    known = {example.text for example in read_examples(options.texts / "val.jsonl")}
    by_source: dict[str, dict[str, Example]] = defaultdict(dict)  # by text: each occurs once
    for example in read_examples(options.texts / "train.jsonl"):
        by_source[example.source][example.text] = example
    train = []
    for source, count in KEPT.items():
        examples = list(by_source[source].values())
        train += chooser.sample(examples, min(count, len(examples)))
    train += new_sentences(options.sentences, known, chooser)
    chooser.shuffle(train)
    options.output.mkdir(parents=True, exist_ok=True)
    write_examples(options.output / "train.jsonl", train)
    shutil.copy(options.texts / "val.jsonl", options.output)
    report = {"train": counted(train), "origin": describe_origin()}
    write_json(options.output / "report.json", report)
    print(f"{options.output}: {len(train):,} texts")


if __name__ == "__main__":
    command.run(main)
