"""Reading reviews: formats, keys, and one clear line for whatever is broken."""

import bz2
import gzip
import lzma
import re
import tracemalloc
import zipfile

import openpyxl
import pandas
import pytest

from data_utils.preparation.blocks import BLOCK_BYTES, Request, cut, read_block
from data_utils.preparation.expansion import expand
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions, as_input
from mlstm_sentiment.reading.records import read_records, warn_of_other_lines
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.texts import ReadingReport, read_texts

REQUEST = Request((), "raw", strict=False, documents=False, digests=False, block_bytes=BLOCK_BYTES)


def texts_of(path, text_key=None, strict=True):
    report = ReadingReport()
    return list(read_texts([path], text_key, report, strict=strict)), report


def test_tsv_and_text(tmp_path):
    (tmp_path / "a.tsv").write_text("review\tstars\nfine, really\t4\n")
    (tmp_path / "a.txt").write_text("one\n\ntwo\r\n")
    assert texts_of(tmp_path / "a.tsv")[0] == ["fine, really"]
    assert texts_of(tmp_path / "a.txt")[0] == ["one", "two"]


def test_missing_and_empty_texts_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n{"other": 1}\n{"text": "  "}\n{"text": 5}\n')
    texts, report = texts_of(path)
    assert texts == ["a", "5"]
    assert report == ReadingReport(records=5, missing_text=2, empty_text=1, repaired_text=0)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.txt", "a.txt.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_utf16_is_read_as_utf8_is(tmp_path, name, encoding):
    """It is recognised by its mark, or by the NULs of a text without one."""
    bodies = {"jsonl": '{"text": "caf\u00e9"}\n', "json": '[{"text": "caf\u00e9"}]\n'}
    body = bodies.get(name.split(".")[1], "text\ncaf\u00e9\n")
    content = body.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for strict in (True, False):
        assert texts_of(tmp_path / name, strict=strict)[0][-1] == "caf\u00e9"
    (source,) = expand([tmp_path / name])
    blocks = [read_block(block, REQUEST) for block in cut(0, source, REQUEST)]
    encoded = [text for block in blocks for reviews in block for text in reviews.encoded]
    assert encoded[-1] == "caf\u00e9".encode()


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.txt", "a.csv.xz"])
@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"PK\x03\x04\x14\x00", "is a zip file; rename it to end in .xlsx if it is a workbook"),
        (gzip.compress(b"text\n", mtime=0), "is compressed with gzip; rename it to end in .gz"),
        (lzma.compress(b"text\ngood\n"), "is compressed with xz; rename it to end in .xz"),
        (b"\x28\xb5\x2f\xfd\x20", "is compressed with zstd; rename it to end in .zst"),
        (b"PAR1\x15\x04", "is a Parquet file; rename it to end in .parquet"),
        (bz2.compress(b"text\n"), "is compressed with bzip2; rename it to end in .bz2"),
        (b"ARROW1\0\0", "is a Feather file; rename it to end in .feather"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is an old or encrypted Office file; save it as .xlsx"),
        (b"%PDF-1.7\n", "is a PDF"),
    ],
)
def test_a_file_of_another_kind_is_named_as_what_it_is(tmp_path, name, head, message):
    (tmp_path / name).write_bytes(lzma.compress(head) if name.endswith(".xz") else head)
    for strict in (True, False):
        with pytest.raises(InputError, match=f"{name}: {message}"):
            texts_of(tmp_path / name, strict=strict)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"text": "\xc3\xa9t\xc3\xa9 caf\xe9"}\n'),
        ("a.json", b'[{"text": "\xc3\xa9t\xc3\xa9 caf\xe9"}]'),
        ("a.csv", b"text\n\xc3\xa9t\xc3\xa9 caf\xe9\n"),
    ],
)
def test_broken_utf8_is_refused_or_replaced_and_counted(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"not UTF-8.*give its encoding"):
        texts_of(path)
    texts, report = texts_of(path, strict=False)
    assert texts == ["\u00e9t\u00e9 caf\ufffd"]
    assert report.repaired_text == 1


ROWS = "1,Monday,It boils in two minutes\n2,Friday,It broke after a week\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "the file is empty"),
        ("a.jsonl", "\n\n", "no records"),
        ("a.jsonl", '{"text": "a"}\nnot json\n', "line 2: not JSON"),
        ("a.jsonl", "[1, 2]\n", 'line 1: holds a list; .* such as {"text": "..."}$'),
        ("a.jsonl", '[{"text": "a"}]\n', r"rename a file that holds an array to end in \.json$"),
        ("a.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", '{"n": 1}\n', "no column is clearly the text; .* --text-key: 'n'"),
        ("a.csv", "x1,label\na,1\n", "no column is clearly the text; .* with --text-key: 'x1'"),
        ("a.csv", "text,label\n", "no records"),
        ("a.csv", '{"text": "good", "n": 1}\n', "line 1: not a table; it begins like JSON; rename"),
        ("a.tsv", '[{"text": "good"}]\n', "line 1: not a table; it begins like JSON; rename"),
        ("a.csv", "<!DOCTYPE html>\n<p>good</p>\n", "not a table; it begins like HTML or XML"),
        ("a.csv", f"Answers,,\nid,day,\n{ROWS}", "is 'Unnamed: 2', without a name; remove"),
        ("a.csv", "label,text\n1,good\n0,bad, really\n", "not a table"),
        ("a.docx", "text", "unknown kind of file"),
    ],
)
def test_bad_files_say_what_and_where(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        texts_of(path)
    assert str(path) in str(caught.value)


def test_a_byte_order_mark_is_not_text(tmp_path):
    bodies = {"jsonl": '{"text": "a"}', "json": '[{"text": "a"}]', "txt": "a\n", "csv": "text\na"}
    for suffix, body in bodies.items():
        name = f"a.{suffix}"
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + body.encode())
        assert texts_of(tmp_path / name)[0] == ["a"]
    (whole,) = read_records(tmp_path / "a.txt", strict=True, whole=True)
    assert whole == {"text": "a\n"}


@pytest.mark.parametrize("header", ["text,n\n", '"text","n"\n'])
def test_byte_order_marks_of_tables_that_were_joined_are_not_text(tmp_path, header):
    mark = "\ufeff"
    (tmp_path / "a.csv").write_text(f"{mark}{mark}{header}{mark}a,1\n{mark}{header}b,{mark}2\n")
    rows = [list(record.items()) for record in read_records(tmp_path / "a.csv", strict=True)]
    values = [("a", "1"), ("text", "n"), ("b", f"{mark}2")]
    assert rows == [[("text", text), ("n", n)] for text, n in values]


def test_a_table_that_is_not_of_the_encoding_given_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("text;n\ncaf\u00e9;1\n".encode("cp1252"))
    for codec in ("utf-8", "utf-16", "ascii"):
        source = as_input(tmp_path / "a.csv", TableOptions(encoding=codec))
        with pytest.raises(InputError, match=r"a\.csv: not .*encoding"):
            list(read_records(source, strict=True))
    with pytest.raises(InputError, match="--encoding nonsense: unknown encoding"):
        TableOptions(encoding="nonsense")


def test_a_comma_behind_the_object_of_a_line_is_named(tmp_path):
    """A line of a JSON array used to be reported as a tuple."""
    (tmp_path / "a.jsonl").write_text('{"text": "a"},\n{"text": "b"}\n')
    with pytest.raises(InputError, match="line 1: has a comma after its object; remove it"):
        texts_of(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.feather", "a.csv"])
def test_cells_are_text_as_they_are_written(tmp_path, name):
    """A missing cell is missing, neither "nan" nor "None"."""
    frame = pandas.DataFrame({"text": ["007", "NA", None, "1.50"], "raw": [b"caf\xc3\xa9"] * 4})
    if name in ("a.xlsx", "a.csv"):
        frame["raw"] = frame["raw"].str.decode("utf-8")
    path = tmp_path / name
    write = {".xlsx": frame.to_excel, ".csv": frame.to_csv}.get(path.suffix)
    if write:
        write(path, index=False)
    else:
        getattr(frame, f"to_{path.suffix[1:]}")(path)
    records = list(read_records(path, strict=True))
    assert [record["text"] or None for record in records] == ["007", "NA", None, "1.50"]
    assert {record["raw"] for record in records} == {"caf\u00e9"}


def rewritten(path, part, change):
    """Write a small workbook, one part of which is changed."""
    frame = pandas.DataFrame({"text": ["good"]})
    frame.to_excel(path, sheet_name="one", index=False)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    changed = change(parts[part])
    assert changed != parts[part]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, part: changed}.items():
            archive.writestr(name, content)


STRICT = ("schemas.openxmlformats.org/officeDocument/2006/", "purl.oclc.org/ooxml/officeDocument/")
NO_SHEET = r"a\.xlsx: has no worksheet that can be read; save it as CSV, or as \.xlsx \(not Strict"


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        ("xl/workbook.xml", *STRICT, NO_SHEET),
        ("xl/workbook.xml", "<sheets>.*</sheets>", "<sheets />", NO_SHEET),
        ("xl/styles.xml", '<cellStyle name="Normal"', "<cellStyle", "not a workbook, or damaged"),
        ("xl/styles.xml", "<fill>.*</fill>", "<fill></fill>", "not a workbook, or damaged"),
    ],
)
def test_a_workbook_that_openpyxl_cannot_read_is_refused(tmp_path, part, old, new, message):
    path = tmp_path / "a.xlsx"
    rewritten(path, part, lambda content: re.sub(old, new, content))
    with pytest.raises(InputError, match=message):
        texts_of(path)


def test_characters_that_excel_writes_as_numbers_are_read(tmp_path):
    frame = pandas.DataFrame({"te_x0078_t": ["good_x000D_\nreally", "_x005F_x000D_ _x0_", "#N/A"]})
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    rows = [record["text"] for record in read_records(tmp_path / "a.xlsx", strict=True)]
    assert rows == ["good\r\nreally", "_x000D_ _x0_", ""]  # an error is no value


TABLE = "Date\tProduct\tWhat was said, in full\n1\tkettle\tIt boils, at last.\n"


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (TABLE, "looks like a table (tab); it is read as text, one a line; to .* end in .tsv"),
        (TABLE.replace("\n", "\r\n") + "\r\n", "(tab)"),
        ("\ufeff" + TABLE, "(tab)"),
        (TABLE + "2\tlamp\tfine\n" * 1000 + "odd\n", "(tab)"),
        ("id,product\n1,kettle\n2,lamp\n", "looks like a table (comma).* end in .csv"),
        ('"Review ID";Words\n1;"so; so"\n2;bad\n', "looks like a table (semicolon)"),
        ('{"id": 1, "text": "good"}\n{"text": "bad"}\n', "looks like JSON.* end in .jsonl"),
        ('\n{"text": "' + "good " * 2000 + '"}\n', "looks like JSON"),
        ('{"so called"} kettle\n', None),
        ("Yes,thanks\nNo,sorry\n", None),
        ("good\rbad\r", "its lines end in CR, as on old Macs, and are read as one text"),
        ("good\n", None),
        ("good, really\nbad, really\n", None),
        ("Great,loved it\nIt broke, sadly, at once\n", None),
        ("good\tbad\n", None),  # a single line
        ("good\tbad\nso so\n", None),
        ("good\rreally\nbad\n", None),
        ("good\r\r\nbad\r\r\n", None),
        ("good\r", None),
        ("\n\n", None),
    ],
)
def test_a_text_file_that_may_not_be_one_text_a_line_is_reported_once(
    tmp_path, caplog, content, warning
):
    path = tmp_path / "a.txt"
    path.write_bytes(content.encode())
    warn_of_other_lines.cache_clear()
    for _ in range(2):  # as a command that checks its input first
        list(read_records(path, strict=True))
    for block in cut(0, as_input(path), REQUEST):
        list(read_block(block, REQUEST))
    list(read_records(path, strict=True, whole=True))
    assert len(caplog.messages) == (warning is not None)
    if warning is not None:
        assert re.search(warning.replace("(", r"\(").replace(")", r"\)"), caplog.messages[0])


def test_sheets_of_one_header_are_one_table_or_one_is_named(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "a.xlsx"
    with pandas.ExcelWriter(path) as book:
        for sheet in ("one", "two"):
            frame = pandas.DataFrame({"n": [5], "text": [f"in {sheet}"]})
            frame.to_excel(book, sheet_name=sheet, index=False)
    assert texts_of(path)[0] == ["in one", "in two"]
    places = [record.place.removeprefix(f"{path}, ") for record in read_records(path, strict=True)]
    assert places == ["sheet 'one', row 2", "sheet 'two', row 2"]
    assert f"{path}: sheets 'one', 'two' of 2 (--sheet), 2 rows, text column 'text'" in caplog.text
    assert texts_of(as_input(path, TableOptions(sheet="two")))[0] == ["in two"]
    with pytest.raises(InputError, match=r"a\.xlsx: no sheet 'x'; the workbook has 'one', 'two'"):
        texts_of(as_input(path, TableOptions(sheet="x")))


def test_the_sheet_with_the_texts_is_read_and_the_rest_is_said(tmp_path, caplog):
    caplog.set_level("INFO")
    book = openpyxl.Workbook()
    book.active.title = "Info"
    book.active.append(["Export of our shop, made in May"])
    book.create_chartsheet("Chart")
    sheet = book.create_sheet("Responses")
    sheet.append(["Customer feedback of May", None, None])
    sheet.append(["Product", "Comment", "Sum"])
    for text in ("It boils quickly.", "It broke after a week.", "Too loud for us.", "So good!"):
        sheet.append([None, text, "=1+1"])
    sheet["A3"], sheet["A6"] = "kettle", "lamp"
    sheet.merge_cells("A3:A5")
    sheet.row_dimensions[4].hidden = True
    hidden = book.create_sheet("Old")
    hidden.append(["Product", "Comment", "Sum"])
    hidden.append(["old", "It was never seen.", "1"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    rows = list(read_records(tmp_path / "a.xlsx", strict=True))
    assert [row["Product"] for row in rows] == ["kettle"] * 3 + ["lamp"]
    assert rows[0].place == f"{tmp_path / 'a.xlsx'}, sheet 'Responses', row 3"
    list(Source(tmp_path / "a.xlsx").read_texts())
    assert (
        "sheet 'Responses' of 3 (--sheet), 4 rows, 1 line above the header left out, "
        "1 hidden sheet not read, 1 hidden row read, too, 1 merged cell filled, "
        "4 formulas without a result: open it in Excel and save it, text column 'Comment'"
    ) in caplog.text
    other = book.create_sheet("Others")
    other.append(["Name", "Remark"])
    other.append(["x", "It was fine, really."])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="'Responses' and 'Others' hold different tables"):
        list(read_records(tmp_path / "a.xlsx", strict=True))


@pytest.mark.parametrize("place", ["XFD20", "B160000"])
def test_cells_up_to_a_formatted_empty_one_take_no_memory(tmp_path, place):
    book = openpyxl.Workbook()
    for cell in ("text", "It boils quickly."):
        book.active.append([cell])
    book.active[place].font = openpyxl.styles.Font(bold=True)
    book.save(tmp_path / "a.xlsx")
    tracemalloc.start()
    try:
        rows = list(read_records(tmp_path / "a.xlsx", strict=True))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert rows == [{"text": "It boils quickly."}]
