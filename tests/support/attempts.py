"""One input of any kind, read in every way: it ends in an InputError, or all ways agree."""

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pandas
import pyarrow
import torch
from pyarrow import feather, parquet

from data_utils.labelled import read_labelled_sets
from data_utils.preparation.blocks import BLOCK_BYTES, Request, cut, read_block
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import _zstandard, as_input
from mlstm_sentiment.reading.source import _arriving_lines as arriving_lines
from mlstm_sentiment.reading.source import _arriving_records as arriving_records
from mlstm_sentiment.reading.texts import ReadingReport, read_texts
from mlstm_sentiment.text.profiles import _TEXT_PROFILES
from transfer.published.nvidia import read_nvidia

REQUEST = Request(
    None, "raw", strict=False, documents=False, digests=False, block_bytes=BLOCK_BYTES
)
IN_BLOCKS = ("a.jsonl", "a.txt")
ROWS = ({"text": "good, b\u00e9st", "label": 1}, {"text": "&#97; <b>bad\n", "label": 0})


def whole_inputs() -> dict[str, bytes]:
    """Return a small undamaged file of every kind, by its name."""
    lines = b'{"text": "good, b\\u00e9st", "label": 1}\n{"text": "&#97; <b>bad\\n", "label": 0}\n'
    table = b'text,label\n"good, b\xc3\xa9st",1\n"&#97; ""bad""\n",0\n'
    return {
        "a.jsonl": lines,
        "a.json": b"[" + lines.strip().replace(b"\n", b",") + b"]",
        "a.csv": table,
        "a.tsv": table.replace(b",", b"\t"),
        "a.txt": b"good, b\xc3\xa9st\n\n&#97; <b>bad\n",
        "a.jsonl.gz": gzip.compress(lines, mtime=0),
        "a.csv.gz": gzip.compress(table, mtime=0),
        "a.jsonl.xz": lzma.compress(lines),
        "a.jsonl.zst": _zstandard().compress(lines),
        "a.parquet": _parquet("snappy"),
        "b.parquet": _parquet("none"),
        "a.csv.bz2": bz2.compress(table),
        "a.csv.zip": _zipped(table),
        "a.feather": _feather(),
        "a.xlsx": _workbook(),
        "a.pt": _tensors(zipped=True),
        "b.pt": _tensors(zipped=False),
    }


def _zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", content)
    return file.getvalue()


def _feather() -> bytes:
    file = io.BytesIO()
    feather.write_feather(pyarrow.table({"text": [row["text"] for row in ROWS]}), file)
    return file.getvalue()


def _workbook() -> bytes:
    file = io.BytesIO()
    pandas.DataFrame(ROWS).to_excel(file, index=False)
    return file.getvalue()


def _parquet(compression: str) -> bytes:
    file = io.BytesIO()
    table = pyarrow.table({"text": [row["text"] for row in ROWS], "label": [[1], None]})
    parquet.write_table(table, file, compression=compression, store_schema=False)
    return file.getvalue()


def _tensors(*, zipped: bool) -> bytes:
    """Return NVIDIA's layout of one unit."""
    shapes = {"w_ih": (4, 1), "w_hh": (4, 1), "w_mih": (1, 1), "w_mhh": (1, 1)}
    shapes |= {"b_ih": (4,), "b_hh": (4,)}
    layer = OrderedDict((f"rnns.0.{name}", torch.ones(shape)) for name, shape in shapes.items())
    encoder = {"encoder": OrderedDict(weight=torch.ones(256, 1).half()), "rnn": layer}
    file = io.BytesIO()
    torch.save({"encoder": encoder}, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def try_input(folder: Path, name: str, content: bytes, size: int) -> None:
    """Read one input in every way, in blocks of `size` bytes for one; any failure is a defect."""
    path = folder / name
    path.write_bytes(content)
    if path.suffix == ".pt":
        with suppress(InputError):
            read_nvidia(path)
        return
    report = ReadingReport()
    texts: list[str] | None = []
    try:
        texts.extend(read_texts([path], None, report, strict=False))
    except InputError:
        texts = None
    for text in texts or []:
        for profile in _TEXT_PROFILES.values():
            profile.encode(text).decode("utf-8")
    with suppress(InputError):
        read_labelled_sets([path])
    _read_as_standard_input(path)
    if name in IN_BLOCKS:
        _compare_blocks(path, size, texts, report)


def _read_as_standard_input(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for records in arriving_records(arriving_lines(descriptor)):
            for _ in records:
                pass
    except InputError:
        pass
    finally:
        os.close(descriptor)


def _compare_blocks(path: Path, size: int, texts: list[str] | None, report: ReadingReport) -> None:
    """Compare what blocks give with what one reader gave."""
    request = replace(REQUEST, block_bytes=size)
    encoded, counts = [], ReadingReport()
    try:
        for block in cut(0, as_input(path), request):
            for reviews in read_block(block, request):
                encoded += reviews.encoded
                counts += reviews.report
    except InputError:
        assert texts is None
        return
    if texts is not None:
        assert encoded == [_TEXT_PROFILES["raw"].encode(text) for text in texts]
        assert counts == report
