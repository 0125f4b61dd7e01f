"""Tables written at random, and what the csv module of Python reads in them."""

import bz2
import csv
import gzip
import io
import random
from collections import Counter
from pathlib import Path

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions, as_input
from mlstm_sentiment.reading.records import read_records

PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
SIGNS = {",": ".csv", ";": ".csv", "\t": ".tsv"}
CODECS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
PIECES = ["a", "b ", "good", "0", "007", "NA", "null", ",", ";", "\t", '"', '""', "\n", "\r\n"]
PIECES += ["'", " ", "\u00e9", "\u20ac", "1.50", "\\", "#", "|"]


def random_table(draw: random.Random) -> tuple[list[list[str]], str, str]:
    """Return rows, the sign between their cells, and the text that holds them."""
    sign, width = draw.choice(list(SIGNS)), draw.randint(1, 4)
    rows = [["text", "the label", "id", "n"][:width]]
    for _ in range(draw.randint(1, 9)):
        rows.append(["".join(draw.choices(PIECES, k=draw.randint(0, 5))) for _ in range(width)])
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    end = draw.choice(["\n", "\r\n", "\r"])
    lines = []
    for row in rows:
        file = io.StringIO(newline="")
        csv.writer(file, delimiter=sign, quoting=quoting, lineterminator="\r\n").writerow(row)
        lines.append(file.getvalue().removesuffix("\r\n") + end)
    text = "".join(lines)
    return rows, sign, text.removesuffix(end) if draw.random() < 0.3 and rows[-1][-1] else text


def strict_rows(text: str, sign: str) -> list[list[str]] | None:
    """Return what the csv module reads, blank lines left out; None for what is malformed."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=sign, strict=True))
    except csv.Error:
        return None
    return [row for row in rows if row and (len(row) > 1 or row[0].strip(" \t") or not row[0])]


def plain_rows(text: str, sign: str) -> list[list[str]]:
    """Return the cells of lines in which quotes are characters."""
    lines = io.StringIO(text, newline=None).read().split("\n")
    return [line.split(sign) for line in lines if line.strip(" " if sign == "\t" else " \t")]


def without_blanks(rows: list[list[str | None]]) -> list[list[str | None]]:
    """Leave out rows of one cell of white space, which are blank lines unless they have quotes."""
    return [row for row in rows if any(row[1:]) or "" in row[1:] or (row[0] or "x").strip(" \t")]


def try_table(folder: Path, draw: random.Random) -> str:
    """Read one table; return "right", "refused, damaged", "refused, whole", or "wrong: ...".

    One in two is damaged by a few characters. One in two is read with all options given: of these,
    only a damaged one may be refused.
    """
    rows, sign, text = random_table(draw)
    is_damaged = draw.random() < 0.5
    if is_damaged:  # below the header
        below = min(map(text.index, {"\n", "\r"} & set(text))) + 1
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(below, len(text))
            text = text[:at] + draw.choice(['"', sign, "\n", "", "x"]) + text[at + 1 :]
    codec = draw.choice(CODECS)
    packing = draw.choice(list(PACK))
    path = folder / f"table{SIGNS[sign]}{packing}"
    path.write_bytes(PACK[packing](text.encode(codec)))
    has_options = draw.random() < 0.5 or codec == "cp1252"  # which a short table does not show
    options = TableOptions(delimiter=sign, encoding=codec, quoting="standard")
    source = as_input(path, options if has_options else TableOptions())
    allowed = [strict_rows(text, sign)]
    if not has_options and sign == "\t":
        allowed.append(plain_rows(text, sign))
    if not has_options and rows[0] == ["text"]:
        allowed.append(strict_rows(text, ","))  # one column says nothing about the sign
    try:
        records = list(read_records(source, strict=True))
    except InputError as error:
        if is_damaged:
            return "refused, damaged"
        return f"wrong: {text!r}: {error}" if has_options else f"refused, whole: {text!r}: {error}"
    actual = without_blanks([list(record.values()) for record in records])
    names = list(records[0]) if records else []
    for expected in filter(None, allowed):
        width = len(expected[0])
        header = [name or f"Unnamed: {number}" for number, name in enumerate(expected[0])]
        expected_rows = [[*row, *[None] * (width - len(row))] for row in expected[1:]]
        if actual == without_blanks(expected_rows) and (not expected_rows or names == header):
            return "right"
    return f"wrong: {text!r} as {source.options}, {codec}: {actual}"


def try_tables(folder: Path, inputs: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Read many tables; return how many were right, refused and wrong, and what was wrong."""
    counts, wrong = Counter[str](), []
    for number in range(inputs):
        outcome = try_table(folder, random.Random(f"{seed} {number}"))
        counts[outcome.partition(":")[0]] += 1
        if outcome.startswith("wrong"):
            wrong.append(f"{seed} {number}: {outcome}")
    return counts, wrong
