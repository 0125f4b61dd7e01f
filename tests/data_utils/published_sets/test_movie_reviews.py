"""The archive of film reviews: converted without unpacking, refused if it is damaged."""

import io
import json
import tarfile

import pytest

from data_utils.published_sets import movie_reviews
from data_utils.published_sets.movie_reviews import MAX_REVIEW_BYTES, convert_movie_reviews
from mlstm_sentiment.errors import InputError
from tests.support.folders import contents

SUBSETS = {
    ("train", "pos"): 10,
    ("train", "neg"): 10,
    ("test", "pos"): 3,
    ("test", "neg"): 3,
    ("train", "unsup"): 4,
}


@pytest.fixture(autouse=True)
def small_subsets(monkeypatch):
    monkeypatch.setattr(movie_reviews, "SUBSETS", SUBSETS)


def write_archive(path, extra=()):
    """An archive as published, in another order, with what else it holds."""
    members = [("aclImdb/README", b"about"), ("aclImdb/train/urls_pos.txt", b"http://x")]
    for (split, kind), count in SUBSETS.items():
        for number in reversed(range(count)):
            rating = {"pos": 9, "neg": 2, "unsup": 0}[kind]
            text = f"{split} {kind} {number}<br />caf\u00e9"
            members.append((f"aclImdb/{split}/{kind}/{number}_{rating}.txt", text.encode()))
    with tarfile.open(path, "w:gz") as archive:
        for name, content in [*members, *extra]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_review_is_in_its_part(tmp_path):
    counts = convert_movie_reviews(write_archive(tmp_path / "a.tar.gz"), tmp_path)
    assert {path.name: count for path, count in counts.items()} == {
        "train.jsonl": 20,
        "fit.jsonl": 18,
        "val.jsonl": 2,
        "test.jsonl": 6,
        "unlabelled.jsonl": 4,
    }
    rows = rows_of(tmp_path / "train.jsonl")
    assert rows[:2] == [
        {"text": "train neg 0<br />caf\u00e9", "label": 0, "rating": 2, "id": 0},
        {"text": "train pos 0<br />caf\u00e9", "label": 1, "rating": 9, "id": 0},
    ]
    assert rows_of(tmp_path / "fit.jsonl") + rows_of(tmp_path / "val.jsonl") == rows
    assert rows_of(tmp_path / "unlabelled.jsonl")[3] == {
        "text": "train unsup 3<br />caf\u00e9",
        "id": 3,
    }


def test_no_path_of_an_archive_reaches_the_disk(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    evil = [("../outside.txt", b"x"), ("aclImdb/train/pos/../../../../9_9.txt", b"x")]
    evil += [(str(tmp_path / "absolute.txt"), b"x")]
    archive = write_archive(folder / "a.tar.gz", evil)
    convert_movie_reviews(archive, folder)
    assert {path.suffix for path in contents(folder)} == {".gz", ".jsonl"}
    assert list(contents(tmp_path)) == [folder]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (b"one more", "4 test/pos"),
        (b"x" * (MAX_REVIEW_BYTES + 1), "too many for a review"),
        (b"\xff", "damaged"),
    ],
)
def test_another_archive_is_refused(tmp_path, extra, message):
    archive = write_archive(tmp_path / "a.tar.gz", [("aclImdb/test/pos/77_9.txt", extra)])
    with pytest.raises(InputError, match=message):
        convert_movie_reviews(archive, tmp_path)
    assert list(contents(tmp_path)) == [archive]


@pytest.mark.parametrize("damage", ["half", "text", "empty"])
def test_a_damaged_archive_is_refused(tmp_path, damage):
    archive = write_archive(tmp_path / "a.tar.gz")
    whole = archive.read_bytes()
    archive.write_bytes({"half": whole[: len(whole) // 2], "text": b"text", "empty": b""}[damage])
    with pytest.raises(InputError, match="damaged"):
        convert_movie_reviews(archive, tmp_path)
