"""A second, short training: its texts, and the mean of the weights of two trainings.

python -m experiments.default_model.second_pass texts data/parts --output data/second
python -m experiments.default_model.train --model runs/tuned/films_1024/step-00003031 \\
    --texts data/second --output runs/tuned/second --head-lr 5e-4 --evaluations 1
python -m experiments.default_model.second_pass average runs/tuned/films_1024/step-00003031 \\
    runs/tuned/second/step-00000733 --output runs/tuned/average
"""

import random
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.sentences.examples import (
    Example,
    counts_of,
    normalized,
    read_examples,
    write_examples,
)
from experiments.default_model.sentences.grammar import draw
from experiments.default_model.train import HEADS_FILE
from model.bounds import Argument, PositiveInt
from model.files.storage import write_json
from model.inference.tensors import load_tensors, save_tensors
from model.inference.weights import load_model, save_model

MOST_TEXTS = {  # by source
    "sst": 7000,
    "imdb": 2000,
    "amazon": 4000,
    "titles": 4000,
    "longer": 4000,
    "rare": 8000,
}


@dataclass(frozen=True)
class TextOptions:
    """Write some texts of the first training and new sentences of the grammar; val stays."""

    texts: Annotated[Path, Argument(positional=True)]
    """What experiments.default_model.texts wrote."""
    output: Path
    """The folder to write."""
    taught: Path | None = None
    """What experiments.default_model.teach wrote; all of its texts are taken, too."""
    sentences: PositiveInt = 30_000
    """New sentences of the grammar."""
    seed: int = 1
    """Seeds what is drawn; other sentences than the first training's."""


@dataclass(frozen=True)
class AverageOptions:
    """Write the mean of two models and of their heads (Wortsman et al. 2022, arXiv 2203.05482)."""

    first: Annotated[Path, Argument(positional=True)]
    """A step's folder of experiments.default_model.train, or what this command wrote."""
    second: Annotated[Path, Argument(positional=True)]
    """Another one, which went on from the first or began from the same weights."""
    output: Path
    """The folder to write."""


KINDS = {"texts": TextOptions, "average": AverageOptions}


def main() -> None:
    options = command.parse_one_of(KINDS, __doc__)
    if isinstance(options, TextOptions):
        write_texts(options)
    else:
        average(options)


def write_texts(options: TextOptions) -> None:
    """Draw the texts of the second training."""
    chooser = random.Random(options.seed)
    val = read_examples(options.texts / "val.jsonl")
    train = some_of(read_examples(options.texts / "train.jsonl"), chooser)
    train += new_sentences(options.sentences, val, chooser)
    if options.taught is not None:
        train += read_examples(options.taught / "train.jsonl")
    chooser.shuffle(train)
    options.output.mkdir(parents=True, exist_ok=True)
    write_examples(options.output / "train.jsonl", train)
    shutil.copy(options.texts / "val.jsonl", options.output)
    report = {"train": counts_of(train), "origin": describe_origin()}
    write_json(options.output / "report.json", report)
    print(f"{options.output}: {len(train):,} texts")


def some_of(examples: Sequence[Example], chooser: random.Random) -> list[Example]:
    """Draw texts of each source, none twice."""
    by_source: dict[str, dict[str, Example]] = defaultdict(dict)  # by text
    for example in examples:
        by_source[example.source][example.text] = example
    drawn = []
    for source, count in MOST_TEXTS.items():
        different = list(by_source[source].values())
        drawn += chooser.sample(different, min(count, len(different)))
    return drawn


def new_sentences(count: int, val: Sequence[Example], chooser: random.Random) -> list[Example]:
    """Return different sentences of the grammar, none of which has the wording of one in val."""
    wordings = {normalized(example.text) for example in val}
    drawn: dict[str, Example] = {}
    while len(drawn) < count:
        sentence = draw(chooser)
        if not wordings & {normalized(sentence.text), normalized(sentence.plain)}:
            drawn[sentence.text] = Example(sentence.text, sentence.label, "grammar")
    return list(drawn.values())


def average(options: AverageOptions) -> None:
    """Write the mean of two models and of their heads."""
    first, second = load_model(options.first), load_model(options.second)
    others = second.model.state_dict()
    mean = {
        name: tensor.lerp(others[name], 0.5) for name, tensor in first.model.state_dict().items()
    }
    first.model.load_state_dict(mean)
    both = {"finetuned_from": dict(second.provenance), "averaged_with": dict(first.provenance)}
    provenance = {**both, **describe_origin()}
    save_model(options.output, first.model, first.profile, provenance, tokenizer=first.tokenizer)
    heads = load_tensors(options.first / HEADS_FILE)
    for name, tensor in load_tensors(options.second / HEADS_FILE).items():
        heads[name] = heads[name].lerp(tensor, 0.5)
    save_tensors(options.output / HEADS_FILE, heads)


if __name__ == "__main__":
    command.run(main)
