"""Tables: cells are not changed; anything that is no table is refused."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.reading.tables import MOST_COLUMNS, column_names, table_rows


def rows_of(text, delimiter=","):
    return list(table_rows(io.StringIO(text, newline=""), delimiter, "a.csv"))


cells = st.text("ab,;\"\t\r\n é\x00'", min_size=1).filter(lambda cell: cell.strip(" \t"))


@given(st.lists(st.tuples(cells, cells), max_size=5), st.sampled_from(",\t;"))
def test_what_is_written_is_read(rows, delimiter):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows([("one", "two"), *rows])
    found = rows_of(file.getvalue(), delimiter)
    assert [row for _, row in found] == [{"one": a, "two": b} for a, b in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1\n", [(2, {"a": "1", "b": None})]),
        ("a,b\n\n  \t\n1,2\n", [(4, {"a": "1", "b": "2"})]),  # blank lines are no rows
        ('a\n""\n', [(2, {"a": ""})]),  # an empty cell is one
        ('a\n" "\n \n" \t"\n', [(2, {"a": " "}), (4, {"a": " \t"})]),  # a quoted blank is one
        ("\n\na\n1", [(4, {"a": "1"})]),
        ("a,b\r1,2\r", [(2, {"a": "1", "b": "2"})]),
        ('a,b\n"two\nlines",2\n', [(3, {"a": "two\nlines", "b": "2"})]),
        ('a\nx"y"\nz"\n', [(2, {"a": 'x"y"'}), (3, {"a": 'z"'})]),  # no quotes of a cell
        (",a,\n0,1,2\n", [(2, {"Unnamed: 0": "0", "a": "1", "Unnamed: 2": "2"})]),
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
        ("a,b\n1,2\n1,2,3\n", "a.csv, line 3: 3 cells where the header has 2: not a table"),
        (
            'a,b\n"one\n2,two\n3,"three"\n',
            "a.csv, line 4: not a table .*begins in line 2 is not closed",
        ),
        ('a\n"x" y\n', "a.csv, line 2: .* there is one within it, which must be doubled"),
        ('a\n"He said \\"no\\""\n', "a.csv, line 2: not a table"),
        ("," * MOST_COLUMNS, "a.csv, line 1: not a table .100,001 columns"),
    ],
)
def test_what_is_no_table_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        rows_of(text)


@pytest.mark.parametrize("header", [["text", "a", "text"], ["Unnamed: 1", ""]])
def test_columns_of_one_name_are_refused(header):
    with pytest.raises(InputError, match=f"line 1: 2 columns are named {header[0]!r}; rename"):
        column_names(header, "a.csv, line 1")


@pytest.mark.parametrize(
    ("text", "delimiter", "words"),
    [
        ("id;text;label\n1;good, very;1\n", ",", r"line 1: one column.*semicolons, not by commas"),
        ("id\ttext\n1\tgood\n", ",", "tabs, not by commas"),
        ("id,text\n1,good\n", "\t", "commas, not by tabs; save it with tabs$"),
        ('"text";"label"\n"good";1\n', ",", "line 1: .* semicolons, not by commas; save it with"),
        ('"text";"label"\r\n"good";1\r\n', "\t", "semicolons, not by tabs; save it with tabs$"),
        ('\n"text"\t"label"\n', ",", r"line 2: .* tabs, not by commas; .*end in \.tsv$"),
        ('"text";label\n', ",", "semicolons, not by commas"),
        ('"te;xt"|"label"\n', ",", "vertical bars, not by commas"),
        ('"a ""b""","c"\n', "\t", "commas, not by tabs"),
    ],
)
def test_another_delimiter_is_named(text, delimiter, words):
    with pytest.raises(InputError, match=words):
        rows_of(text, delimiter)


def test_only_a_header_is_read_for_its_delimiter():
    with pytest.raises(InputError, match=r"line 2: not a table .*which must be doubled"):
        rows_of('"text"\n"good";"bad"\n')
    with pytest.raises(InputError, match=r"line 1: not a table .*which must be doubled"):
        rows_of('"He said "no" to all","label"\n')


def test_one_column_is_a_table():
    assert rows_of("text; what was said\na;b\n") == [(2, {"text; what was said": "a;b"})]


@pytest.mark.parametrize("line", ["sep=;", "sep=,"])
def test_the_note_for_excel_is_named(line):
    with pytest.raises(InputError, match=r"a\.csv, line 1: a note for Excel, not a header"):
        rows_of(f"{line}\r\ntext,label\r\ngood,1\r\n")
