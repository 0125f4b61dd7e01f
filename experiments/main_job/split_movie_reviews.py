"""Split the movie reviews (MR) into train.csv, val.csv and test.csv.

python -m experiments.main_job.split_movie_reviews --data DATA --output OUTPUT

MR has no standard split, and the papers report 10-fold cross-validation. This is one random split
of 80/10/10, so the accuracy has the interval of 1,067 test sentences.
"""

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from configs import command
from data_utils.published_sets.registry import SETS

SEED = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Split the sentences of MR at random, by a seed."""

    data: Path
    """The folder that holds mr/."""
    output: Path
    """Folder of the three files."""


def main() -> None:
    options = command.parse(Options, __doc__)
    texts = SETS["mr"].read(options.data).texts
    rows = list(zip(texts.labels.tolist(), texts.texts, strict=True))
    random.Random(SEED).shuffle(rows)
    cuts = [0, len(rows) * 8 // 10, len(rows) * 9 // 10, len(rows)]
    options.output.mkdir(parents=True, exist_ok=True)
    for name, start, stop in zip(("train", "val", "test"), cuts, cuts[1:], strict=False):
        with open(options.output / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("label", "sentence"))
            writer.writerows(rows[start:stop])


if __name__ == "__main__":
    command.run(main)
