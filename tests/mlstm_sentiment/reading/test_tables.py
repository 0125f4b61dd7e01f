"""Tables: cells are not changed; anything that is no table is refused."""

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions
from mlstm_sentiment.reading.tables import (
    _MOST_COLUMNS,
    DelimitedRows,
    TableReport,
    _written_name,
    column_names,
)
from tests.support.fuzzed_tables import try_tables


def rows_of(text, usual=",", **options):
    return list(delimited(text, TableReport("a.csv"), TableOptions(**options), usual))


def delimited(text, table, options, delimiter=","):
    return DelimitedRows(iter(io.StringIO(text, newline="")), table, options, delimiter)


cells = st.text("ab,;\"\t\r\n é\x00'", min_size=1).filter(lambda cell: cell.strip(" \t"))


@given(st.lists(st.tuples(cells, cells), max_size=5), st.sampled_from(",\t;"))
def test_what_is_written_is_read(rows, delimiter):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows([("one", "two"), *rows])
    read = rows_of(file.getvalue(), delimiter, quoting="standard")
    assert read == [{"one": a, "two": b} for a, b in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1\n", [{"a": "1", "b": None}]),
        ("a,b\n\n  \t\n1,2\n", [{"a": "1", "b": "2"}]),  # blank lines are no rows
        ('a\n""\n', [{"a": ""}]),  # an empty cell is one
        ('a\n" "\n \n" \t"\n', [{"a": " "}, {"a": " \t"}]),  # a quoted blank is one
        ("\n\na\n1", [{"a": "1"}]),
        ("a,b\r1,2\r", [{"a": "1", "b": "2"}]),
        ('a,b\n"two\nlines",2\n', [{"a": "two\nlines", "b": "2"}]),
        ('a\nx"y"\nz"\n', [{"a": 'x"y"'}, {"a": 'z"'}]),  # no quotes of a cell
        (",a,\n0,1,2\n", [{"Unnamed: 0": "0", "a": "1", "Unnamed: 2": "2"}]),
        ("a\n", []),
    ],
)
def test_rows_and_the_numbers_of_their_lines(text, expected):
    assert rows_of(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv: the input is empty: not even a header"),
        (" \n\n", "the input is empty"),
        ('a\nfine\n"open\nand on\n', "a.csv, line 3: not a table .a quote is open from here"),
        ('a\n"', "a quote is open"),
        ('"a\n', "a quote is open"),
        ('a,b\n"1","2\n', "a quote is open"),
        ("a,b\n1,2\n1,2,3\n", "a.csv, line 3: 3 cells, but the header has 2: not a table"),
        ("What else?\nNothing\nA, b\n", "line 3: 2 cells, but .* 1: .*; --delimiter tab reads"),
        ('a,b\n"one\n2,two\n3,"three"\n', "a.csv, line 2: .* that begins here is not closed"),
        ('a\n"x" y\n', "a.csv, line 2: .* a quote in it that is not doubled.*--quoting none"),
        ("," * _MOST_COLUMNS, "a.csv, line 1: not a table .100,001 columns"),
    ],
)
def test_what_is_no_table_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        rows_of(text)


LONG = "It works. \n" * 20_000


@pytest.mark.parametrize(
    "row", [f'"{LONG}",2\n', f"{'x' * 200_000},2\n", '"a \\" b",' + "y" * 200_000 + "\n"]
)
def test_a_cell_may_be_longer_than_python_reads_and_the_host_keeps_its_limit(row):
    before = csv.field_size_limit()
    long = rows_of("a,b\n" + row)
    assert max(len(cell) for cell in long[0].values()) >= 200_000
    rows = iter(delimited("a,b\n" + row * 2, TableReport("a.csv"), TableOptions()))
    next(rows)  # and is not read to its end
    assert csv.field_size_limit() == before


def test_threads_share_the_limit_of_a_cell():
    """One that ends does not take it from another, which is in the middle of a cell."""
    before, begun, over = csv.field_size_limit(), Event(), Event()

    def slow_lines():
        lines = LONG.splitlines(keepends=True)
        yield from ["a\n", '"begins\n', *lines[:15_000]]  # the first 10,000 show the dialect
        begun.set()
        over.wait()
        yield from [*lines[15_000:], '"\n']

    with ThreadPoolExecutor(1) as pool:
        rows = DelimitedRows(slow_lines(), TableReport("a.csv"), TableOptions(), ",")
        slow = pool.submit(list, rows)
        begun.wait(60)
        rows_of("a,b\n1,2\n")
        over.set()
        assert len(slow.result()[0]["a"]) > len(LONG)
    assert csv.field_size_limit() == before


def test_columns_of_one_name_are_numbered():
    header = ["text", "a", "text", "", "text (2)", "text", "Unnamed: 3"]
    names = column_names(header)
    assert len(set(names)) == len(names)
    assert names[:3] == ["text", "a", "text (3)"]
    assert [_written_name(name, names) for name in names][:4] == ["text", "a", "text", ""]


def test_quotes_after_backslashes_are_quotes():
    """As Spark writes them."""
    text = 'id,text\n1,"He said \\"no\\", twice"\n2,"C:\\new\\\\"\n'
    assert [row["text"] for row in rows_of(text)] == ['He said "no", twice', "C:\\new\\\\"]


def test_rows_with_too_many_cells_are_left_out_on_request():
    table = TableReport("a.csv")
    rows = delimited("text,n\na,1\nb, c,2\nd,3\n", table, TableOptions(bad_rows="skip"))
    assert [row["text"] for row in rows] == ["a", "d"]
    assert table.left_out() == ["1 with too many cells left out"]


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("# export of 3 March\n\nid,text\n1,Fine\n2,Bad\n", 1),
        ("Survey of May,,\nShop:,A,\nid,stars,text\n1,5,Fine\n2,1,Bad\n", 2),
        ("Survey of May,,,\nShop:,A,,\nid,stars,when,text\n1,5,May,Fine\n2,1,May,Bad\n", 2),
        ("Customer feedback in May,,\n,,\nguest,text,stars\nAnn,Fine,5\nBob,Bad,1\n", 2),
        ("Our reviews\n\nguest,text,stars\nAnn,Fine,5\nBob,Bad,1\n", 1),
        ("text\nfine\nnice\ngood\n", 0),
        ("feedback,\nas good,it is\nvery bad,it was\n", 0),
        ("text,\ngood,1\nbad,2\n", 0),
        ("a,b\n1,\n2,\n", 0),
    ],
)
def test_titles_above_the_header_are_no_rows(text, above):
    table = TableReport("a.csv")
    rows = list(delimited(text, table, TableOptions()))
    assert table.lines_above == above
    assert not above or (len(rows) == 2 and rows[0]["text"] == "Fine")


def test_a_row_has_the_line_on_which_it_begins():
    text = '\nSurvey of May,,\n\nid,stars,text\n\n1,5,"It\nshines"\n\n2,1,Bad\n'
    assert [row.place for row in rows_of(text)] == ["a.csv, line 6", "a.csv, line 9"]


@pytest.mark.parametrize(
    ("text", "usual", "row"),
    [
        ("id;text;label\n1;good, very;1\n", ",", {"id": "1", "text": "good, very", "label": "1"}),
        ("id\ttext\n1\tgood\n", ",", {"id": "1", "text": "good"}),
        ("id,text\n1,good\n", "\t", {"id": "1", "text": "good"}),
        ('"text";"label"\n"good";1\n', ",", {"text": "good", "label": "1"}),
        ('"text";"label"\r\n"good";1\r\n', "\t", {"text": "good", "label": "1"}),
        ('\n"text"\t"label"\na\tb\n', ",", {"text": "a", "label": "b"}),
        ('"te;xt"|"label"\na|b\n', ",", {"te;xt": "a", "label": "b"}),
        ('"a ""b""","c"\n1,2\n', "\t", {'a "b"': "1", "c": "2"}),
        ("text;price\nso, so;3,50\nwell;4,00\n", ",", {"text": "so, so", "price": "3,50"}),
        ("text, all;n\nso, so;3\nwell;4\n", ",", {"text, all": "so, so", "n": "3"}),
        (",text\n0,a;b\n", ",", {"Unnamed: 0": "0", "text": "a;b"}),
        ("text,n\na;b;c,1\n", ",", {"text": "a;b;c", "n": "1"}),
        ("text; what was said\na;b\n", ",", {"text; what was said": "a;b"}),
    ],
)
def test_the_delimiter_is_that_of_every_record(text, usual, row):
    assert rows_of(text, usual)[0] == row


@pytest.mark.parametrize("asked", ["tab", "\t", "\\t"])
def test_a_delimiter_that_is_named_is_taken(asked):
    assert rows_of("a,b\tc\n1\t2\n", delimiter=asked) == [{"a,b": "1", "c": "2"}]


@pytest.mark.parametrize("asked", ["", "ab", '"', "\n", "\u00e9"])
def test_a_delimiter_that_cannot_be_one_is_refused(asked):
    with pytest.raises(InputError, match="--delimiter"):
        TableOptions(delimiter=asked)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("sign", [";", ",", "\t", "^"])
def test_the_note_for_excel_names_the_delimiter(sign, mark):
    text = f"{mark}sep={sign}\r\ntext{sign}label\r\ngood{sign}1\r\n"
    assert rows_of(text) == [{"text": "good", "label": "1"}]


STRAY = """sentence{0}label
good film{0}1
"Wow what a film{0}0
ok{0}1
so bad"{0}0
fine{0}1
last "one" here{0}0
said "no" twice{0}1
"""


@pytest.mark.parametrize(
    ("sign", "options"), [("\t", {}), ("\t", {"quoting": "none"}), (",", {"quoting": "none"})]
)
def test_quotes_that_are_characters_swallow_no_rows(sign, options):
    rows = list(rows_of(STRAY.format(sign), sign, **options))
    assert [row["sentence"] for row in rows] == [
        line.split(sign)[0] for line in STRAY.format(sign).splitlines()[1:]
    ]


def test_a_quoted_cell_that_swallows_rows_is_refused():
    """Such a table of seven rows used to get four answers."""
    with pytest.raises(InputError, match=r"a\.csv, line 3: a quoted cell spans 3 lines.*none"):
        rows_of(STRAY.format(","))
    assert len(rows_of(STRAY.format(","), quoting="standard")) == 5


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        ('1,"good\nbad, though"\n0,bad\n', ["good\nbad, though", "bad"]),
        ('1,"good\nbad, though"\n', ["good\nbad, though"]),
        ('1,"one\n\ntwo"\n0,"x, ""y""\nz, w"\n', ["one\n\ntwo", 'x, "y"\nz, w']),
        ('1,"good"\n0,"bad"\n', ["good", "bad"]),
    ],
)
def test_a_cell_of_several_lines_is_one_cell(rows, cells):
    assert [row["text"] for row in rows_of("label,text\n" + rows)] == cells
    if "good" not in rows or "\n" not in cells[0]:
        tabs = "label\ttext\n" + rows.replace(',"', '\t"')
        assert [row["text"] for row in rows_of(tabs, "\t")] == cells


def test_random_tables_are_read_as_pythons_csv_module_reads_them(tmp_path):
    """More: python -m tests.fuzz 5000."""
    counts, wrong = try_tables(tmp_path, 150)
    assert not wrong
    assert counts["right"] > 100
