"""Files are whole or absent."""

import pytest

from model.errors import InputError
from model.storage import read_json, write_atomically, write_json


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert read_json(path) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_json_must_be_an_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[1]")
    with pytest.raises(InputError, match="expected a JSON object"):
        read_json(path)
