"""Count the everyday sentences that the grammar of the training texts nearly contains.

python -m experiments.default_model.nearness --data DATA --texts data/anew
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.remarks import FILE, own_remarks, read_remarks
from experiments.default_model.sentences.examples import normalized, read_examples
from experiments.results import write_result
from transfer.intervals import packed_answers

NEAR = 0.6  # of the words in either sentence


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the everyday sentences, ours and another author's, with the grammar's sentences."""

    data: Path
    """The folder that holds everyday/test.tsv."""
    texts: Path
    """The folder that experiments.default_model.texts wrote."""


def main() -> None:
    options = command.parse(Options, __doc__)
    examples = read_examples(options.texts / "train.jsonl")
    learned = [example.text for example in examples if example.source == "grammar"]
    sets = {"validation": own_remarks(), "test": read_remarks(options.data / FILE)}
    result: dict[str, Any] = {"grammar": len(learned), "near": NEAR}
    for name, remarks in sets.items():
        near = nearest(remarks.texts, learned) >= NEAR
        result[name] = {"texts": len(near), "near": int(near.sum()), "rows": packed_answers(near)}
        print(f"{name}: {near.sum()} of {len(near)} are near a sentence of the grammar")
    write_result("default_model", "nearness", {**result, "origin": describe_origin()})


def nearest(texts: Sequence[str], learned: Iterable[str]) -> np.ndarray:
    """Return each text's largest Jaccard index of words with a learned one, float64 [N]."""
    words = [set(normalized(text).split()) for text in texts]
    others = {frozenset(normalized(text).split()) for text in learned}
    return np.array([max(len(own & other) / len(own | other) for other in others) for own in words])


if __name__ == "__main__":
    command.run(main)
