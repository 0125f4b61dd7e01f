"""Write labelled synthetic reviews as train.csv, val.csv and test.csv.

python scripts/synthesize_reviews.py --output data/synthetic
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import command

from data_utils.sources import LABELLED_REVIEWS, LABELLED_SEEDS
from data_utils.synthetic import synthetic_reviews
from model.errors import InputError
from model.files.storage import write_atomically


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write labelled synthetic reviews as train.csv, val.csv and test.csv."""

    output: Path
    """Folder for the three files."""


def main() -> None:
    options = command.parse(Options, __doc__)
    paths = {split: options.output / f"{split}.csv" for split in LABELLED_REVIEWS}
    check_free(options.output, paths.values())
    options.output.mkdir(parents=True, exist_ok=True)
    for split, count in LABELLED_REVIEWS.items():
        path = paths[split]
        write_atomically(path, lambda partial, s=split, n=count: write_reviews(partial, n, s))
        print(f"{path}: {count:,} reviews")


def check_free(folder: Path, paths: Iterable[Path]) -> None:
    """Raise InputError if the files cannot be made there, or would replace others."""
    if folder.is_file():
        raise InputError(f"--output {folder}: is a file; name a folder")
    for path in paths:
        if path.exists():
            raise InputError(f"{path}: exists already; remove it, or name another --output")


def write_reviews(path: Path, count: int, split: str) -> None:
    """Write one labelled set."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("label", "text"))
        for review in synthetic_reviews(count, LABELLED_SEEDS[split]):
            writer.writerow((review.label, review.text))


if __name__ == "__main__":
    command.run(main)
