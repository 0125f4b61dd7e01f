"""Movie reviews (rt-polarity.pos and .neg, Windows-1252) to train.csv, val.csv and test.csv.

The set has no standard split, the papers report 10-fold cross-validation; this is one seeded
80/10/10 split, so its accuracy carries the interval of 1,067 test sentences.

    python experiments/main_job/split_movie_reviews.py FOLDER OUTPUT
"""

import argparse
import csv
import random
from pathlib import Path

SEED = 0
ENCODING = "cp1252"


def main(folder: Path, output: Path) -> None:
    rows = [
        (label, line.strip())
        for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos"))
        for line in (folder / name).read_text(encoding=ENCODING, errors="replace").split("\n")
        if line.strip()
    ]
    random.Random(SEED).shuffle(rows)
    cuts = [0, len(rows) * 8 // 10, len(rows) * 9 // 10, len(rows)]
    output.mkdir(parents=True, exist_ok=True)
    for name, start, stop in zip(("train", "val", "test"), cuts, cuts[1:], strict=False):
        with open(output / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("label", "sentence"))
            writer.writerows(rows[start:stop])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where rt-polarity.pos and rt-polarity.neg are")
    parser.add_argument("output", type=Path, help="folder to write to")
    try:
        main(**vars(parser.parse_args()))
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
