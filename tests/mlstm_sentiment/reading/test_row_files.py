"""Rows written can be read again, whatever is in them."""

import csv
import io
import json
from contextlib import suppress
from datetime import date
from decimal import Decimal

import openpyxl
import pandas
import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.reading.texts import KeyChooser
from mlstm_sentiment.rows.sink import RowOutput, Sink

ODD = [
    'say "hi"',
    "a,b",
    "two\nlines",
    "win\r\nlines",
    "mac\rline",
    "",
    " padded ",
    "漢字 ça",
    "NA",
]


def written(rows, row_format):
    file, placed = io.BytesIO(), list(map(Record, rows))
    for number, row in enumerate(placed):
        row.place = f"row {number}"
    RowOutput(file, row_format).write(placed)
    return file.getvalue()


def test_csv_comes_back_with_every_odd_cell(tmp_path):
    rows = [{"text": text, "p": 0.25} for text in ODD]
    content = written(rows, "csv").decode()
    assert list(csv.DictReader(io.StringIO(content, newline=""))) == [
        {"text": text, "p": "0.25"} for text in ODD
    ]
    (tmp_path / "rows.csv").write_bytes(content.encode())
    assert [r["text"] for r in read_records(tmp_path / "rows.csv", strict=True)] == ODD


def test_json_lines_come_back_with_their_types():
    rows = [{"text": text, "n": None, "f": 0.1, "b": True, "l": [1, {"a": "é"}]} for text in ODD]
    lines = written(rows, "jsonl").decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == rows
    assert "漢字" in lines[7]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("row", "line", "cells"),
    [
        ({"a": NAN, "b": None, "c": 1}, '{"a": null, "b": null, "c": 1}', ",,1"),
        # Most readers of JSON refuse a file with NaN or Infinity in it.
        ({"a": -INFINITY, "b": [NAN, {"c": (INFINITY, 1.5)}]},
         '{"a": null, "b": [null, {"c": [null, 1.5]}]}', '-inf,"[null, {""c"": [null, 1.5]}]"'),
        ({"a": "NaN", "text": "\ud800"}, '{"a": "NaN", "text": "\\ud800"}', None),
        # As from Parquet.
        ({"day": date(2020, 1, 2), "p": Decimal("1.50"), "b": True, "l": ["a", 1]}, None,
         '2020-01-02,1.50,true,"[""a"", 1]"'),
    ],
)  # fmt: skip
def test_values_are_written_in_the_words_of_each_format(row, line, cells):
    assert line is None or written([row], "jsonl").decode() == f"{line}\n"
    if cells is not None:
        assert written([row], "csv").decode() == f"{','.join(row)}\n{cells}\n"


def test_csv_refuses_a_column_that_the_first_row_lacks():
    with pytest.raises(InputError, match=r"row 1: has 'b'.*--format jsonl"):
        written([{"a": 1}, {"a": 1, "b": 2}], "csv")


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
@pytest.mark.parametrize("value", [16**4000, {(1, 2): 3}], ids=["number", "key"])
def test_what_json_cannot_say_is_named_by_its_place(value, row_format):
    """Lines in Python's notation may hold such values."""
    with pytest.raises(InputError, match="row 1: JSON cannot represent it"):
        written([{"a": 1}, {"a": value}], row_format)


GERMAN = (
    "id;Kommentar;when\n007;Die K\u00fcche ist sch\u00f6n, aber laut;=1+1\n"
    "2;Gr\u00f6\u00dfer als erwartet;-5\n"
)


def classified_as(path, sink, encoding=None):
    """Write the rows of a table with a label, as classify does."""
    source = Source(path, table=TableOptions(encoding=encoding))
    rows, key = list(source.records()), KeyChooser(None)
    for row in rows:
        key.value(row)
    dialect = source.dialect(key.table.delimiter)
    with sink.open({}, [*rows[0], "label"], ["label"], dialect=dialect) as output:
        assert output.take(rows) == []
        for row in rows:
            row["label"] = "positive"
        output.write(rows)


@pytest.mark.parametrize(
    ("codec", "named"),
    [
        *[(codec, None) for codec in ("utf-8", "utf-8-sig", "cp1252", "utf-16")],
        *[("utf-8-sig", "utf_8_sig"), ("utf-8-sig", "UTF-8-SIG"), ("utf-8", "U8")],
        *[("utf-16", "utf16"), ("utf-16", "utf_16"), ("utf-16", "UTF-16"), ("utf-32", "UTF_32")],
    ],
)
def test_csv_is_written_as_the_input_is(tmp_path, codec, named):
    (tmp_path / "a.csv").write_bytes(GERMAN.encode(codec))
    classified_as(tmp_path / "a.csv", Sink(tmp_path / "out.csv"), named)
    lines = [f"{line};positive" for line in GERMAN.splitlines()]
    lines[0] = lines[0].replace("positive", "label")
    assert (tmp_path / "out.csv").read_bytes() == ("\n".join(lines) + "\n").encode(codec)
    classified_as(tmp_path / "a.csv", Sink(tmp_path / "out.tsv"))
    tabs = [line.replace(";", "\t") for line in lines]
    assert (tmp_path / "out.tsv").read_bytes().decode(codec).splitlines() == tabs


def test_another_dialect_is_written_on_request_and_formulas_are_quoted(tmp_path):
    (tmp_path / "a.csv").write_bytes(GERMAN.encode("cp1252"))
    classified_as(tmp_path / "a.csv", Sink(tmp_path / "out.csv", "csv", safe_cells=True))
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == [
        "id,Kommentar,when,label",
        '007,"Die K\u00fcche ist sch\u00f6n, aber laut",\'=1+1,positive',
        "2,Gr\u00f6\u00dfer als erwartet,-5,positive",
    ]


def test_numbers_are_safe_cells_and_those_of_an_interrupted_command_are_read_again(tmp_path):
    sink, names = Sink(tmp_path / "out.csv", safe_cells=True), ["label", "sentiment"]
    answers = [{"label": "-", "sentiment": -1.37e-05}, {"label": "'", "sentiment": None}]
    rows = [Record({"text": text}) for text in ("-1.2E-05", "-me too")]
    with suppress(KeyboardInterrupt), sink.open({}, ["text", *names], names) as output:
        output.take(rows)
        output.write([Record(row | answer) for row, answer in zip(rows, answers, strict=True)])
        raise KeyboardInterrupt
    with sink.open({}, ["text", *names], names) as output:
        assert output.take(rows) == answers
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "text,label,sentiment", "-1.2E-05,'-,-1.37e-05", "'-me too,',",
    ]  # fmt: skip


def interrupted():
    yield Record({"text": "a"})
    raise KeyboardInterrupt


def test_a_workbook_is_written_without_formulas(tmp_path):
    (tmp_path / "a.csv").write_bytes(GERMAN.encode())
    sink = Sink(tmp_path / "out.xlsx")
    with pytest.raises(KeyboardInterrupt), sink.open({}, [], ["label"]) as output:
        output.write(interrupted())
    assert (tmp_path / "out.xlsx.partial").exists()
    classified_as(tmp_path / "a.csv", sink)
    rows = list(openpyxl.load_workbook(tmp_path / "out.xlsx").active)
    cells = [[cell.value for cell in row] for row in rows]
    assert cells[1] == ["007", "Die K\u00fcche ist sch\u00f6n, aber laut", "=1+1", "positive"]
    assert cells[2] == ["2", "Gr\u00f6\u00dfer als erwartet", "-5", "positive"]
    assert [cell.data_type for cell in rows[1]] == ["s"] * 4
    with pytest.raises(InputError, match="name a file with --output"):
        Sink(None, "xlsx")


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["12", "-7", "", "0"], [12, -7, None, 0]),
        (["4.50", "4.55", "3"], [4.5, 4.55, 3]),
        (["4.333333333333333", "4.5", "-1.2E-05"], [4.333333333333333, 4.5, -1.2e-05]),
        (["12345", "01234"], None),
        (["4.5", "12345678901234.1234567"], None),
        (["1", "1234567890123456"], None),
        (["1", "12E4"], None),
        (["1", "N/A"], None),
        (["1", "\u0661"], None),
        ([1, "x", 2.5, True, None], [1, "x", 2.5, True, None]),
    ],
)
def test_a_column_of_a_workbook_holds_numbers_only_if_none_loses_a_digit(tmp_path, texts, values):
    with Sink(tmp_path / "out.xlsx").open({}, ["n", "label"], ["label"]) as output:
        output.write([Record({"n": text, "label": "positive"}) for text in texts])
    rows = openpyxl.load_workbook(tmp_path / "out.xlsx").active.iter_rows(min_row=2)
    assert [row[0].value for row in rows] == (texts if values is None else values)


def test_odd_characters_come_back_from_a_workbook(tmp_path):
    odd = ["two\nlines\tand\ra tab", "no \x00\x1b[0m \x0b \uffff", "_x0041_ _x005F_ _x00_", " a "]
    with Sink(tmp_path / "out.xlsx").open({}, ["text", "label"], ["label"]) as output:
        output.write([Record({"text": text, "label": "positive"}) for text in odd])
    records = list(Source(tmp_path / "out.xlsx").records())
    assert [record["text"] for record in records] == odd
    first = openpyxl.load_workbook(tmp_path / "out.xlsx").active["A2"].value
    assert first == "two\nlines\tand_x000D_a tab"  # as Excel writes it


def test_a_row_that_a_workbook_cannot_hold_is_refused(tmp_path):
    for late, said in (({"n": 2}, "has 'n', but the first row"), ({"text": "a" * 40000}, "cell")):
        second = Record({"text": "b", **late})
        second.place = "row 2"
        with (
            Sink(tmp_path / f"{said[:3]}.xlsx").open({}, [], []) as output,
            pytest.raises(InputError, match=f"row 2: .*{said}"),
        ):
            output.write([Record({"text": "a"}), second])


def test_csv_of_a_workbook_opens_in_excel(tmp_path):
    """Without a byte order mark, Excel reads UTF-8 as another encoding."""
    frame = pandas.DataFrame({"text": ["So sch\u00f6n"] * 3, "n": ["007"] * 3})
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    classified_as(tmp_path / "a.xlsx", Sink(tmp_path / "out.csv"))
    lines = ["\ufefftext,n,label", *["So sch\u00f6n,007,positive"] * 3, ""]
    assert (tmp_path / "out.csv").read_bytes().decode() == "\n".join(lines)
