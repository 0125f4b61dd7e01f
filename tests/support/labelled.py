"""Labelled texts of a train, a val and a test set, as files."""

import csv

NAMES = ("train", "val", "test")


def write_labelled(folder, count=40):
    """Write train.csv, val.csv and test.csv: good and bad in turn."""
    for name in NAMES:
        with open(folder / f"{name}.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            for number in range(count):
                word = ("bad", "good")[number % 2]
                rows.writerow([f"a {word} one of the {name} set, {number}", number % 2])
