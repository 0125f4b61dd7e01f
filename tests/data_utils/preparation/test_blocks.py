"""Blocks hold every line once, whatever their size, and name the line that is wrong."""

import gzip
import json
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from data_utils.preparation import blocks
from data_utils.preparation.blocks import BLOCK_BYTES, Request, cut, read_block
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import as_input
from mlstm_sentiment.reading.texts import ReadingReport, read_texts
from mlstm_sentiment.text.profiles import text_profile

REQUEST = Request((), "raw", strict=False, documents=False, digests=False, block_bytes=BLOCK_BYTES)

# What files hold: records, blanks, broken bytes, notation that only the slow parser reads.
LINES = st.lists(
    st.one_of(
        st.builds(lambda text: json.dumps({"text": text}).encode(), st.text(max_size=12)),
        st.builds(
            lambda text: json.dumps({"text": text}, ensure_ascii=False).encode(errors="replace"),
            st.text(max_size=12),
        ),
        st.sampled_from(
            [
                *(b"", b"  ", b'{"text": "caf\xe9"}', b'{"text": "\\ud800"}', b'{"text": NaN}'),
                *(b'{"text": null}', b'{"text": 5}', b'{"text": true}', b"{'text': 'single'}"),
                *(b'{"text": 12345678901234567890123}', b'{"other": 1}', b'{"other": "caf\xe9"}'),
                b'{"text": "a\\u0000"}',
            ]
        ),
    ),
    min_size=1,
    max_size=30,
)


def through_blocks(path, request=REQUEST):
    encoded, rows, report = [], [], ReadingReport()
    for block in cut(0, as_input(path), request):
        for reviews in read_block(block, request):
            encoded += reviews.encoded
            rows += [(block.index, row) for row in reviews.rows]
            report += reviews.report
    return encoded, rows, report


@settings(max_examples=150, deadline=None)
@for_all(LINES, st.integers(1, 120), st.booleans(), st.booleans())
def test_blocks_read_what_one_reader_reads(tmp_path_factory, lines, size, compress, ends):
    folder = tmp_path_factory.mktemp("blocks")
    content = b"\n".join(lines) + (b"\n" if ends else b"")
    path = folder / ("a.jsonl.gz" if compress else "a.jsonl")
    path.write_bytes(gzip.compress(content) if compress else content)
    expected, report = [], ReadingReport()
    try:
        for text in read_texts([path], "text", report, strict=False):
            expected.append(text_profile("raw").encode(text))
    except InputError:  # at the end: no records, or none with a text
        if not content and not compress:
            return  # an empty file is refused before it is cut
    encoded, rows, counts = through_blocks(
        path, replace(REQUEST, text_keys=("text",), block_bytes=size)
    )
    assert encoded == expected
    assert counts == report
    assert rows == sorted(set(rows))


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_wrong_line_is_named(tmp_path, size, suffix):
    content = b'{"text": "a"}\n\n' * 9 + b"{wrong}\n" + b'{"text": "b"}\n'
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(InputError, match=r"line 19: not JSON"):
        through_blocks(path, replace(REQUEST, block_bytes=size))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n\n{"text": "caf\xe9"}\n', "line 3: not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": "\\ud800"}\n', "line 3: a lone surrogate"),
        ("a.json", b'[{"text": "a"}, {"text": "\\ud800"}]', "item 2: a lone surrogate"),
    ],
)
def test_strictness_names_the_place_too(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        through_blocks(tmp_path / name, replace(REQUEST, strict=True, block_bytes=16))


@pytest.mark.parametrize("size", [1, 40, 1000])
def test_what_is_no_text_is_named_by_its_line(tmp_path, size):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' * 5 + '{"text": ["x"]}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 6: expected text .* found \['x'\]"):
        through_blocks(path, replace(REQUEST, block_bytes=size))
    (tmp_path / "a.json").write_text('[{"text": "a"}, {"text": {"x": 1}}]')
    with pytest.raises(InputError, match=r"a\.json, item 2: expected text .* found {'x': 1}"):
        through_blocks(tmp_path / "a.json", replace(REQUEST, block_bytes=size))


def test_an_array_and_a_table_come_in_parts(tmp_path):
    request = replace(REQUEST, block_bytes=20)
    texts = [f"number {i}" for i in range(12)]
    (tmp_path / "a.json").write_text(json.dumps([{"text": text} for text in texts]))
    (tmp_path / "a.csv").write_text("\n".join(["text", *texts]))
    for name in ("a.json", "a.csv"):
        (block,) = cut(0, as_input(tmp_path / name), request)
        parts = list(read_block(block, request))
        assert [review.decode() for part in parts for review in part.encoded] == texts
        assert len(parts) == 4
        assert all(part.rows == list(range(len(part.rows))) for part in parts)


@pytest.mark.parametrize(
    ("profile", "encoded"),
    [
        ("openai", ["\n good ", "\n <br /> ", "\n 好 "]),
        ("nvidia", ["\n good ", "\n Hao "]),
        ("tweet", ["good", "<br />"]),
        ("raw", ["good", "&nbsp;", "<br />", "好"]),
    ],
)
def test_what_cleaning_leaves_empty_is_counted_as_empty(tmp_path, profile, encoded):
    path = tmp_path / "a.txt"
    path.write_text("good\n&nbsp;\n<br />\n好\n", encoding="utf-8")
    reviews, rows, report = through_blocks(path, replace(REQUEST, profile=profile))
    assert [review.decode() for review in reviews] == encoded
    assert len(rows) == len(reviews)
    assert (report.records, report.empty_text) == (4, 4 - len(encoded))


def test_rows_without_text_take_no_memory(tmp_path):
    rows = 30_000
    path = tmp_path / "a.csv"
    path.write_text("text,stars\n" + ",\n" * rows)
    request = replace(REQUEST, text_keys=("text",))  # no cell shows which column it is
    (block,) = cut(0, as_input(path), request)
    tracemalloc.start()
    try:
        (part,) = read_block(block, request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert part.report.empty_text == rows
    assert peak / rows < 40  # bytes; a row that is kept takes several hundred


def test_many_rows_end_a_part_of_a_table_and_documents_are_whole_files(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_ROWS", 5)
    path = tmp_path / "a.csv"
    path.write_text("text,stars\n" + ",\n" * 5 + "good,\n" * 7)
    assert through_blocks(path)[:2] == ([b"good"] * 7, [(0, n) for n in (0, 1, 2, 3, 4, 0, 1)])
    request = Request(
        (), "openai", strict=False, documents=True, digests=False, block_bytes=BLOCK_BYTES
    )
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert through_blocks(tmp_path / "a.txt", request)[0] == [b"\n one two "]
