"""Write the texts of the mixture with which a training of start_again.md ends.

python -m experiments.models.mixture --corpus data/pieces --films data/films.jsonl \\
    --output data/mixed
python scripts/prepare_corpus.py data/mixed/{amazon,films,sentences}.jsonl --deduplicate \\
    --split 1,0,0 --tokenizer data/pieces --output data/mixed_pieces
python -m experiments.models.join data/pieces data/mixed_pieces --train-of-others \\
    --output data/mixture
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configs import command
from data_utils.corpus import open_corpus
from mlstm_sentiment.files.writer import write_content
from mlstm_sentiment.text.split import Split

BYTES = 14_000_000  # of each kind
LONGEST = 400  # bytes of a sentence
SEED = 12
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write 14 MB each of a corpus's reviews, of films', and of sentences of other films'."""

    corpus: Path
    """A corpus of reviews of things, of whose train split some are taken."""
    films: Path
    """Reviews of films: what select_reviews wrote."""
    output: Path
    """The folder for amazon.jsonl, films.jsonl and sentences.jsonl."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = np.random.default_rng(SEED)
    with options.films.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    films = (texts[row] for row in chooser.permutation(len(texts)))
    things = reviews(open_corpus(options.corpus).splits["train"], chooser)
    write(options.output / "amazon.jsonl", things)
    write(options.output / "films.jsonl", films)
    sentences = (sentence for film in films for sentence in END_OF_SENTENCE.split(film))
    short = (each for each in sentences if len(each.encode()) <= LONGEST)
    write(options.output / "sentences.jsonl", short)


def reviews(split: Split, chooser: np.random.Generator) -> Iterator[str]:
    """Yield the texts of a split in a random order, which is drawn at the first one."""
    for row in chooser.permutation(split.reviews):
        start, end = split.offsets[row : row + 2].tolist()
        yield split.tokenizer.decode(split.tokens[start:end]).decode(errors="replace").strip()


def write(path: Path, texts: Iterable[str]) -> None:
    """Write the first texts, until they have BYTES.

    It takes one more, and drops it, so that the mixture is the one of the shipped training.
    """
    size, taken = 0, []
    for text in texts:
        if size >= BYTES:
            break
        taken.append(json.dumps({"text": text}))
        size += len(text.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_content(path, ("\n".join(taken) + "\n").encode(), None)
    print(f"{path}: {len(taken):,} texts, {size:,} bytes")


if __name__ == "__main__":
    command.run(main)
