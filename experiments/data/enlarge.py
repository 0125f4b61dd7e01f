"""Make a large file of reviews from small ones by repeating them.

python -m experiments.data.enlarge reviews.jsonl.gz ... --bytes 1e9 --output large.jsonl.gz
"""

import gzip
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from configs import command
from model.reading.records import read_records

LEVEL = 6  # the default of gzip, with which published files are compressed


@dataclass(frozen=True)
class Options:
    """Write JSON lines of about this many bytes, compressed if the name ends with .gz."""

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files of reviews in any format that prepare_corpus reads."""
    output: Path
    """The file to write: .jsonl or .jsonl.gz."""
    bytes: float = 1e9
    """Size before compression."""


def main() -> None:
    options = command.parse(Options, __doc__)
    packed = options.output.suffix == ".gz"
    written = 0
    with (
        open(options.output, "wb") as stored,
        gzip.GzipFile("", "wb", LEVEL, stored) if packed else nullcontext(stored) as file,
    ):
        for line in enlarged(options.inputs):
            written += file.write(line)
            if written >= options.bytes:
                break
    print(f"{options.output}: {written:,} bytes of JSON lines")


def enlarged(inputs: tuple[Path, ...]) -> Iterator[bytes]:
    """Yield the reviews again and again; each later copy has its number as its first word."""
    copy = 0
    while True:
        for path in inputs:
            for record in read_records(path, strict=False):
                if copy:
                    record["reviewText"] = f"{copy} {record.get('reviewText')}"
                yield json.dumps(record).encode() + b"\n"
        copy += 1


if __name__ == "__main__":
    command.run(main)
