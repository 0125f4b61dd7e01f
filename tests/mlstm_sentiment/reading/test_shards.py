"""The outputs of shards: their names, and what `join` makes of them."""

import csv

import numpy as np
import pytest

from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.shards import check_part, join
from mlstm_sentiment.reading.source import Shard

ROWS = [["id", "text"], *([str(n), 'two\nlines, "quoted"' * (n % 3)] for n in range(11))]


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)
    return path


def write_parts(folder, count, rows=ROWS):
    head, *body = rows
    for number in range(1, count + 1):
        part = folder / f"all-{number}-of-{count}.csv"
        write_rows(part, [head, *body[number - 1 :: count]])
    return folder / "all.csv"


@pytest.mark.parametrize("count", [1, 2, 4, 11])
def test_joined_rows_are_those_of_the_whole_byte_by_byte(tmp_path, count):
    whole = write_rows(tmp_path / "whole.csv", ROWS)
    joined = write_parts(tmp_path, count)
    assert join(joined) == (count, 11)
    assert joined.read_bytes() == whole.read_bytes()


def test_features_and_json_are_joined_too(tmp_path, capsys):
    features = np.arange(21, dtype=np.float32).reshape(7, 3)
    for number in (1, 2):
        np.save(tmp_path / f"f-{number}-of-2.npy", features[number - 1 :: 2])
        (tmp_path / f"r-{number}-of-2.jsonl").write_text('"\n' * (3 - number))
    dispatch(["join", "--output", str(tmp_path / "f.npy")])
    assert capsys.readouterr().out == f"{tmp_path / 'f.npy'}: 7 rows of 2 parts\n"
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), features)
    assert join(tmp_path / "r.jsonl") == (2, 3)


def remove(folder):
    (folder / "all-2-of-3.csv").unlink()


def shorten(folder):
    write_rows(folder / "all-1-of-3.csv", ROWS[:2])


def rename_a_column(folder):
    write_rows(folder / "all-2-of-3.csv", [["id", "label"], *ROWS[1:]])


def mix(folder):
    write_parts(folder, 2)


def remove_all(folder):
    for part in folder.iterdir():
        part.unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (remove, "of 3 parts these are missing: 2"),
        (shorten, "Were all parts made from one file?"),
        (rename_a_column, "other columns than those of"),
        (mix, "there are parts of 2 and of 3 shards"),
        (remove_all, r"no parts of it are there, such as .*all-1-of-8\.csv"),
    ],
)
def test_parts_that_are_not_all_of_one_file_are_refused(tmp_path, change, words):
    joined = write_parts(tmp_path, 3)
    change(tmp_path)
    with pytest.raises(InputError, match=words):
        join(joined)
    assert not joined.exists()


@pytest.mark.parametrize(
    ("name", "shard", "words"),
    [
        ("all-1-of-3.csv", Shard(1, 3), None),
        ("any.csv", Shard(1, 4), None),
        ("other-1-of-4.csv", Shard(1, 4), None),
        ("all-1-of-3.csv", Shard(1, 4), "its name says another part than --shard 1/4"),
        ("all-2-of-3.csv", Shard(1, 3), "its name says another part"),
        ("all-1-of-3.csv", Shard(), "its name says another part"),
        ("all-1-of-4.csv", Shard(1, 4), r"all-1-of-3\.csv is one of 3 parts"),
    ],
)
def test_another_number_of_shards_is_refused(tmp_path, name, shard, words):
    write_parts(tmp_path, 3)
    if words is None:
        check_part(tmp_path / name, shard)
    else:
        with pytest.raises(InputError, match=words):
            check_part(tmp_path / name, shard)
