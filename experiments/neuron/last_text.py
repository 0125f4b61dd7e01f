"""Write the short reviews of a corpus, or its reviews cut into sentences, as JSON lines.

python -m experiments.neuron.last_text data/everything --longest 400 --output data/short.jsonl

Only the train split is read. `prepare_corpus.py` makes a corpus of the output.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from configs import command
from data_utils.corpus import open_corpus
from model.bounds import Argument, PositiveInt
from model.files.storage import write_atomically
from model.text.split import Split, tokens_by_review

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Keep the short reviews, or cut all of them into sentences."""

    corpus: Annotated[Path, Argument(positional=True)]
    """The corpus whose train split is read."""
    longest: PositiveInt = 400
    """Most bytes of a text that is kept."""
    sentences: bool = False
    """Cut each review after `.`, `!` and `?`, and keep the sentences instead."""
    output: Path
    """The JSON lines to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    lines, seen = [], 0
    for text in texts_of(open_corpus(options.corpus).splits["train"]):
        pieces = SENTENCE_END.split(text) if options.sentences else [text]
        seen += len(pieces)
        lines += [json.dumps({"text": t}) for t in pieces if len(t.encode()) <= options.longest]
    write_atomically(options.output, lambda path: path.write_text("\n".join([*lines, ""])))
    print(f"{len(lines):,} of {seen:,} texts have at most {options.longest} bytes")


def texts_of(split: Split) -> Iterator[str]:
    """Yield the reviews of a split as text, without the frame."""
    for tokens in tokens_by_review(split):
        yield split.tokenizer.decode(tokens).decode(errors="replace").strip()


if __name__ == "__main__":
    command.run(main)
