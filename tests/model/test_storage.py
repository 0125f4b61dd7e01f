"""Files are whole or absent."""

import pytest

from model.errors import InputError
from model.storage import read_json, whole_folder, write_atomically, write_json


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


def test_files_are_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").touch()

    def write_private(temporary):
        temporary.touch(mode=0o600)

    write_atomically(tmp_path / "a", write_private)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_must_be_an_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[1]")
    with pytest.raises(InputError, match="expected a JSON object"):
        read_json(path)


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    final = tmp_path / "step"
    with whole_folder(final) as partial:
        (partial / "one").write_text("first")

    def fail():
        with whole_folder(final) as partial:
            (partial / "one").write_text("second")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert (final / "one").read_text() == "first"
    with whole_folder(final) as partial:
        (partial / "two").write_text("third")
    assert [path.name for path in final.iterdir()] == ["two"]
    assert list(tmp_path.iterdir()) == [final]
