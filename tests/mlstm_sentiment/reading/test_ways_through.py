"""Files that are no plain table: read, or refused with what works."""

import json
import zipfile
from contextlib import nullcontext

import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading import inputs, records
from mlstm_sentiment.reading.rows import Rows
from mlstm_sentiment.reading.source import Source

TEXTS = ["It broke after a week.", "Nice and quick, I love it.", "Too loud for our kitchen."]
NESTED = [
    {"id": n, "review": {"text": t, "stars": 5}, "images": [{"url": "x"}]}
    for n, t in enumerate(TEXTS)
]


@pytest.mark.parametrize("key", [None, "review.text"])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(NESTED, indent=2),
        json.dumps({"count": 3, "reviews": NESTED}),
        json.dumps({"reviews": NESTED}) + "\n",
        json.dumps({"meta": {"about": "All reviews of our shop"}, "reviews": NESTED}, indent=1),
        json.dumps({"data": {"reviews": NESTED}}),
        "\n".join(json.dumps(row, indent=1) for row in NESTED),
        "\n".join(map(json.dumps, NESTED)),
    ],
)
def test_json_in_any_layout(tmp_path, content, key):
    (tmp_path / "a.json").write_text(content)
    assert list(Source(tmp_path / "a.json", key).read_texts()) == TEXTS
    one = json.dumps(NESTED[0], indent=1)
    (tmp_path / "one.json").write_text(one)
    assert list(Source(tmp_path / "one.json", key).read_texts()) == TEXTS[:1]


@pytest.mark.parametrize(
    ("longest", "message"),
    [(4000, ""), (400, "longer than 400 bytes; put each record on its own line")],
)
@pytest.mark.parametrize("content", [NESTED * 9, {"reviews": NESTED * 9}])
def test_json_without_lines_may_be_longer_than_a_record(
    tmp_path, monkeypatch, content, longest, message
):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    short = list(Source(path).records())
    monkeypatch.setattr(inputs, "LONGEST_RECORD", 200)
    monkeypatch.setattr(records, "_LONGEST_JSON", longest)
    with pytest.raises(InputError, match=message) if message else nullcontext():
        assert list(Source(path).records()) == short


@pytest.mark.parametrize("name", ["a.zip", "a.csv.zip"])
def test_an_archive_with_a_readme_is_read(tmp_path, name):
    files = {
        "README.md": "read me",
        "data/reviews.csv": "\n".join(["id;text", *map(";".join, enumerated())]),
    }
    archive(tmp_path / name, files)
    assert list(Source(tmp_path / name).read_texts()) == TEXTS
    archive(tmp_path / name, {**files, "more.csv": "text\nfine\n"})
    with pytest.raises(
        InputError, match=r"2 files in it, not one \('data/reviews.csv', 'more.csv'\)"
    ):
        list(Source(tmp_path / name).read_texts())


def enumerated():
    return ((str(number), text) for number, text in enumerate(TEXTS))


def archive(path, files):
    with zipfile.ZipFile(path, "w") as target:
        for name, content in files.items():
            target.writestr(name, content)


def test_several_columns_are_joined_without_their_placeholders(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "a.csv").write_text(
        "Good,Bad\nIt is quick,It is loud\nIt is cheap,N/A\nN/A,\n", encoding="utf-8"
    )
    both = ("Good", "Bad")
    assert list(Source(tmp_path / "a.csv", both).read_texts()) == [
        "It is quick\nIt is loud", "It is cheap", "N/A",
    ]  # fmt: skip
    assert "text columns 'Good + Bad', joined (--text-key)" in caplog.text
    with pytest.raises(InputError, match="no key 'Ugly'"):
        list(Source(tmp_path / "a.csv", ("Good", "Ugly")).read_texts())


def test_nothing_below_each_of_several_questions_is_no_answer(tmp_path):
    questions = ("What did you like about us?", "What could we improve?")
    lines = [",".join(questions), "nothing,nothing", "nothing,The coffee", "N/A,none at all"]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    (batch,) = Rows(Source(tmp_path / "a.csv", questions)).batches()
    assert [row.text for row in batch] == [None, "The coffee", None]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.xls", "save it as .xlsx"),
        ("a.ods", "save it as .xlsx"),
        ("a.tar.gz", "unpack it, and name the file in it"),
        ("a.tgz", "unpack it, and name the file in it"),
    ],
)
def test_what_is_not_read_is_refused_with_what_works(tmp_path, name, remedy):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=f"unknown kind of file; {remedy}; known: "):
        list(Source(tmp_path / name).records())
