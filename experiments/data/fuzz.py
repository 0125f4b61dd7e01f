"""Coverage-guided fuzzing of the readers with atheris (pip install atheris; Python 3.11 or 3.12).

python -m experiments.data.fuzz -max_total_time=300 [folder of inputs to go on with]

An input is a file's kind and its bytes. Reading it may end in an InputError and in nothing else;
reading it in blocks of any size must give what reading it at once gives; each of its reviews must
be valid UTF-8 under every text profile.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import atheris

with atheris.instrument_imports():
    from data_utils.preparation.blocks import Request, cut, read_block
    from model.errors import InputError
    from model.reading.inputs import as_input
    from model.reading.texts import ReadingReport, read_texts
    from model.text.profiles import TEXT_PROFILES

NAMES = (
    *("a.jsonl", "a.json", "a.csv", "a.tsv", "a.txt"),
    *("a.jsonl.gz", "a.jsonl.xz", "a.jsonl.zst", "a.parquet"),
)
IN_BLOCKS = ("a.jsonl", "a.txt")
REQUEST = Request(None, "raw", strict=False, documents=False, digests=False)
FOLDER = Path(tempfile.mkdtemp())


def try_one(data: bytes) -> None:
    """Read one input in every way."""
    if len(data) < 2:
        return
    name, size = NAMES[data[0] % len(NAMES)], 1 + data[1]
    path = FOLDER / name
    path.write_bytes(data[2:])
    report = ReadingReport()
    texts: list[str] | None = []
    try:
        texts.extend(read_texts([path], None, report, strict=False))
    except InputError:
        texts = None
    for text in texts or []:
        for profile in TEXT_PROFILES.values():
            profile.encode(text).decode("utf-8")
    if name in IN_BLOCKS:
        compare_blocks(path, size, texts, report)


def compare_blocks(path: Path, size: int, texts: list[str] | None, report: ReadingReport) -> None:
    """Hold what blocks give against what one reader gave."""
    request = replace(REQUEST, block_bytes=size)
    found, counted = [], ReadingReport()
    try:
        for block in cut(0, as_input(path), request):
            for reviews in read_block(block, request):
                found += reviews.encoded
                counted += reviews.report
    except InputError:
        assert texts is None
        return
    if texts is not None:
        assert found == [TEXT_PROFILES["raw"].encode(text) for text in texts]
        assert counted == report


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()
