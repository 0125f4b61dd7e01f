"""Convert the archive of IMDB's film reviews (Maas et al. 2011) to JSON lines.

Members are read in place, without unpacking, so no path in an archive can reach the disk.
"""

import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_atomically

_MEMBER = re.compile(r"aclImdb/(train|test)/(pos|neg|unsup)/(\d{1,9})_(\d{1,9})\.txt")
MAX_REVIEW_BYTES = 1 << 20  # the longest has about 14 kilobytes
# Reviews in each subset of the published archive.
SUBSETS = {
    ("train", "pos"): 12_500,
    ("train", "neg"): 12_500,
    ("test", "pos"): 12_500,
    ("test", "neg"): 12_500,
    ("train", "unsup"): 50_000,
}
_VALIDATION_EVERY = 10  # one review in ten of train


class _Review(NamedTuple):
    number: int
    subset: tuple[str, str]  # as in SUBSETS
    rating: int  # stars of 10; 0 in the unlabelled subset
    text: str


def convert_movie_reviews(archive: Path, folder: Path) -> dict[Path, int]:
    """Write files that transfer reads; return the number of reviews in each.

    `train.jsonl`, `test.jsonl` and `unlabelled.jsonl` are the published subsets. The set has no
    validation subset: `fit.jsonl` and `val.jsonl` are train cut in two, by number, which keeps most
    films on one side. Both labels alternate. Takes a few hundred megabytes of memory.
    Raises InputError if the archive is damaged or does not hold SUBSETS.
    """
    reviews = sorted(_read_archive(archive))
    counts = {subset: sum(review.subset == subset for review in reviews) for subset in SUBSETS}
    if counts != SUBSETS:
        held = ", ".join(f"{count:,} {'/'.join(subset)}" for subset, count in counts.items())
        raise InputError(f"{archive}: not the published archive, it holds {held} reviews")
    train = [review for review in reviews if review.subset in (("train", "pos"), ("train", "neg"))]
    cut = len(train) - len(train) // _VALIDATION_EVERY
    files = {
        "train": train,
        "fit": train[:cut],
        "val": train[cut:],
        "test": [review for review in reviews if review.subset[0] == "test"],
        "unlabelled": [review for review in reviews if review.subset[1] == "unsup"],
    }
    for name, rows in files.items():
        write_atomically(folder / f"{name}.jsonl", partial(_write_rows, rows), "labelled reviews")
    return {folder / f"{name}.jsonl": len(rows) for name, rows in files.items()}


def _read_archive(path: Path) -> Iterator[_Review]:
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in tqdm(archive, desc=path.name, unit=" files", disable=None):
                match = _MEMBER.fullmatch(member.name)
                if match is None or not member.isfile():
                    continue  # folders, word counts, lists of addresses
                if member.size > MAX_REVIEW_BYTES:
                    raise InputError(
                        f"{path}: {member.name} has {member.size:,} bytes, too many for a review"
                    )
                split, kind, number, rating = match.groups()
                text = archive.extractfile(member).read().decode("utf-8")  # type: ignore[union-attr]
                yield _Review(int(number), (split, kind), int(rating), text)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InputError(f"{path}: damaged ({error}); remove it and get it again") from error


def _write_rows(reviews: list[_Review], path: Path) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for number, (_, kind), rating, text in reviews:
            known = {} if kind == "unsup" else {"label": int(kind == "pos"), "rating": rating}
            row = {"text": text, **known, "id": number}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
