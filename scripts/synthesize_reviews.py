"""Write labelled synthetic reviews as train.csv, val.csv and test.csv.

python scripts/synthesize_reviews.py --output data/synthetic
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import command

from data_utils.corpus import LABELLED_REVIEWS, LABELLED_SEEDS
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_content


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write labelled synthetic reviews as train.csv, val.csv and test.csv."""

    output: Path
    """Folder for the three files."""


def main() -> None:
    options = command.parse(Options, __doc__)
    files = {options.output / f"{split}.csv": reviews_of(split) for split in LABELLED_REVIEWS}
    if options.output.is_file():
        raise InputError(f"--output {options.output}: is a file; name a folder")
    for path, content in files.items():
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"{path}: exists already; remove it, or name another --output")
    options.output.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        if not path.exists():
            write_content(path, content, "labelled reviews")
    for split, count in LABELLED_REVIEWS.items():
        command.say(f"{options.output / split}.csv: {count:,} reviews")


def reviews_of(split: str) -> bytes:
    """Return one labelled set as CSV; every call returns the same."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(("label", "text"))
    for review in synthetic_reviews(LABELLED_REVIEWS[split], LABELLED_SEEDS[split]):
        writer.writerow((review.label, review.text))
    return table.getvalue().encode()


if __name__ == "__main__":
    command.run(main)
