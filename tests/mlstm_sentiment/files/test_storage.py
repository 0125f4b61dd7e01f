"""Files are whole or absent."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import (
    check_replaceable,
    read_json,
    recover_folders,
    whole_folder,
)
from mlstm_sentiment.files.writer import write_atomically, write_json
from tests.support.folders import contents
from tests.support.runs import ROOT


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1}, "a result")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail, "a result")
    assert read_json(path) == {"a": 1}
    assert [item.name for item in contents(tmp_path)] == ["a.json"]


def test_files_are_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").touch()

    def write_private(temporary):
        temporary.touch(mode=0o600)

    write_atomically(tmp_path / "a", write_private, "a result")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_two_may_write_one_file(tmp_path):
    path = tmp_path / "a.json"

    def write_while_another_does(temporary):
        temporary.write_text('{"by": "the first"}')
        write_json(path, {"by": "the second"}, "a result")
        assert read_json(path) == {"by": "the second"}

    write_atomically(path, write_while_another_does, "a result")
    assert read_json(path) == {"by": "the first"}
    assert list(contents(tmp_path)) == [path]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path):
    path, left, other = (tmp_path / name for name in ("a[1]", ".a[1].0123abcd.partial", ".a[1].x"))
    for file in (left, other):
        file.write_text("half")

    write_atomically(path, lambda temporary: temporary.write_text("whole"), "a result")
    assert contents(tmp_path) == [other, path]


@pytest.mark.parametrize(
    "content",
    [
        *(b"[1]", b"{", b"\xff", b'{"a": ' + b"[" * 200_000, b'{"a":' * 200_000),
        b'{"a": %s}' % (b"1" * 5000),
    ],
    ids=["no object", "cut", "no UTF-8", "lists", "objects", "digits"],
)
def test_what_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    damaged = r"a\.json: not JSON \(.*\); is the file damaged\?"
    with pytest.raises(
        InputError, match="expected a JSON object" if content == b"[1]" else damaged
    ):
        read_json(tmp_path / "a.json")


def test_json_far_too_large_is_refused_unread(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"a\.json: 1,099,511,627,776 bytes, too many"):
        read_json(tmp_path / "a.json")


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    final = tmp_path / "step"
    with whole_folder(final, ("*",)) as partial:
        (partial / "one").write_text("first")

    def fail():
        with whole_folder(final, ("*",)) as partial:
            (partial / "one").write_text("second")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert (final / "one").read_text() == "first"
    with whole_folder(final, ("*",)) as partial:
        (partial / "two").write_text("third")
    assert [path.name for path in contents(final)] == ["two"]
    assert list(contents(tmp_path)) == [final]


KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from mlstm_sentiment.files.storage import whole_folder

number, renames = int(sys.argv[2]), itertools.count(1)

def kill(event, arguments):
    if event == "os.rename" and next(renames) == number:
        os.kill(os.getpid(), signal.SIGKILL)

with whole_folder(Path(sys.argv[1]), ("*",)) as partial:
    (partial / "one").write_text("second")
    sys.addaudithook(kill)
"""


def killed_at(number, final):
    """Replace `final` in a process that is killed before its rename number `number`."""
    ended = subprocess.run([sys.executable, "-c", KILLED, final, str(number)], cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_between_the_renames_loses_no_folder(tmp_path, number):
    final = tmp_path / "a.step"
    with whole_folder(final, ("*",)) as partial:
        (partial / "one").write_text("first")
    killed_at(number, final)
    recover_folders(tmp_path, ("*",))
    assert (final / "one").read_text() == "first"
    killed_at(number, final)
    with whole_folder(final, ("*",)) as partial:
        (partial / "one").write_text("third")
    assert (final / "one").read_text() == "third"
    assert list(contents(tmp_path)) == [final]


SAVER = """
import sys
import numpy as np
from pathlib import Path
from safetensors.numpy import save_file
from mlstm_sentiment.files.storage import whole_folder
with whole_folder(Path(sys.argv[1]), ("a.safetensors",)) as partial:
    while True:
        save_file({"a": np.zeros(1 << 24)}, partial / "a.safetensors")
"""


def test_what_safetensors_had_written_at_a_kill_is_removed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SAVER, tmp_path / "model"], cwd=ROOT)
    deadline = time.monotonic() + 60
    try:
        while not list(tmp_path.glob(".model.partial/.tmp*")):
            assert time.monotonic() < deadline
            process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
    finally:
        process.kill()
        process.wait()
    recover_folders(tmp_path, ("a.safetensors",))
    assert not list(contents(tmp_path))


def test_a_rename_that_fails_leaves_the_old_folder(tmp_path):
    final = tmp_path / "step"
    with whole_folder(final, ("*",)) as partial:
        (partial / "one").write_text("first")
    with pytest.raises(FileNotFoundError), whole_folder(final, ("*",)) as partial:
        shutil.rmtree(partial)  # after which the last rename cannot be
    assert (final / "one").read_text() == "first"
    assert list(contents(tmp_path)) == [final]


def test_what_a_kill_left_half_written_is_cleared_and_nothing_else(tmp_path):
    (tmp_path / ".step-00000012.partial").mkdir()
    (tmp_path / ".step-00000012.partial/model.safetensors").write_text("half")
    (tmp_path / ".config.json.1234abcd.partial").write_text("{")
    for name in (".hidden", ".mine.1234abcd.partial", "a.partial", "step-00000006"):
        (tmp_path / name).write_text("kept")
    for name in (".a.partial", ".notes.removed.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("kept")
    (tmp_path / ".link.partial").symlink_to(tmp_path / ".a.partial")
    recover_folders(tmp_path, ("model.safetensors", "config.json"))
    kept = ".a.partial .hidden .link.partial .mine.1234abcd.partial .notes.removed.partial"
    expected = [*kept.split(), "a.partial", "step-00000006"]
    assert sorted(path.name for path in contents(tmp_path)) == expected
    assert (tmp_path / ".link.partial/notes.txt").read_text() == "kept"


def test_a_folder_with_a_file_that_is_not_ours_is_refused_and_if_it_comes_late_kept(
    tmp_path, caplog
):
    """A user may write notes into model/ while the run trains."""
    final, ours = tmp_path / "model", ("config.json", "classifier/*.json")
    with whole_folder(final, ours) as partial:
        (partial / "config.json").write_text("1")
        (partial / "classifier").mkdir()
        (partial / "classifier/a.json").write_text("1")
    check_replaceable(final, ours)
    (final / "classifier/notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"model: .*not write: 'classifier/notes\.txt'; move them"):
        check_replaceable(final, ours)
    for number in (2, 3):
        with whole_folder(final, ours) as partial:
            (partial / "config.json").write_text(str(number))
            (final / "late.txt").write_text("mine")
    assert "not write: 'classifier/notes.txt', 'late.txt'; the old one is now " in caplog.text
    assert (final / "config.json").read_text() == "3"
    first, second = tmp_path / "model.kept-1", tmp_path / "model.kept-2"
    assert (first / "config.json").read_text() == "1"
    assert (first / "classifier/notes.txt").read_text() == "mine"
    assert (second / "late.txt").read_text() == "mine"
    assert sorted(contents(tmp_path)) == [final, first, second]


def test_a_link_is_never_followed(tmp_path):
    """Its target may belong to another run, or be on a disk that is not mounted."""
    link, target = tmp_path / "model", tmp_path / "disk/model"
    target.mkdir(parents=True)
    (target / "config.json").write_text("another's")
    link.symlink_to(target)
    with pytest.raises(InputError, match="model: is a link, and nothing is written through links"):
        check_replaceable(link, ("*",))
    with whole_folder(link, ("*",)) as partial:
        (partial / "config.json").write_text("new")
    assert (target / "config.json").read_text() == "another's"
    assert (tmp_path / "model.kept-1").readlink() == target
    assert (link / "config.json").read_text() == "new"
    assert [path.name for path in contents(target.parent)] == ["model"]


def test_a_link_in_a_folder_is_not_ours(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/config.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a/classifier").symlink_to(tmp_path / "b")
    with pytest.raises(InputError, match=r"not write: 'classifier', 'config\.json'"):
        check_replaceable(tmp_path / "a", ("config.json", "classifier"))


def test_an_old_folder_that_cannot_be_removed_yet_is_in_no_later_ones_way(tmp_path, monkeypatch):
    """On NFS this happens while someone reads the model that is replaced."""
    final, rmtree = tmp_path / "model", shutil.rmtree

    def remove(path, **options):
        if not any((path / number).exists() for number in "12"):
            rmtree(path, **options)
        elif not options.get("ignore_errors"):
            raise OSError(errno.ENOTEMPTY, "someone reads it")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", remove)
        for number in "123":
            with whole_folder(final, ("*",)) as partial:
                (partial / number).write_text(number)
    assert [path.name for path in contents(final)] == ["3"]
    recover_folders(tmp_path, ("*",))
    assert list(contents(tmp_path)) == [final]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    output = tmp_path / "nowhere" / "answers.csv"
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(output, lambda path: path.write_text("a"), "a result")
    assert error.value.filename == str(output)


def test_what_is_no_file_is_refused_as_an_output(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")  # as /dev/stdout may be
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(InputError, match=f"{path}: is a pipe or a device; name a file$"):
            write_json(path, {"a": 1}, "a result")
    assert len(contents(tmp_path)) == 2


FULL = (errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("kind_of_error", "words", "message"),
    [
        (OSError, FULL, "No space left on device: '{}'"),
        (OSError, (*FULL, "there"), "No space left on device: 'there'"),
        (OSError, ["9 requested and 4 written"], "not be written (9 requested and 4 written)"),
        (TimeoutError, ["of a server"], "of a server"),
        (OSError, ["libcudart.so: cannot open"], "libcudart.so: cannot open"),
    ],
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_could_not_be_written_is_named(tmp_path, kind, kind_of_error, words, message):
    path = tmp_path / "a"

    def fail(*arguments):
        raise kind_of_error(*words)

    def fill():
        if kind == "file":
            write_atomically(path, fail, "a result")
        with whole_folder(path, ("*",)):
            fail()

    with pytest.raises(OSError, match=r"\w") as caught:
        fill()
    assert message.format(path) in str(caught.value)
    assert ("is the disk full" in str(caught.value)) == ("be written" in message)
    assert caught.value.filename in (None, "there", str(path))
    assert not list(contents(tmp_path))


@pytest.mark.parametrize("largest_file", [100], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_a_copy_to_a_full_disk_is_named_once_and_not_the_original(tmp_path):
    def fill():
        with whole_folder(tmp_path / "a", ("*",)) as partial:
            shutil.copyfile("LICENSE", partial / "copied")

    with pytest.raises(OSError, match=r"^.Errno 27. File too large: '.*/a'$"):
        fill()


@pytest.mark.parametrize("largest_file", [200], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_an_array_that_does_not_fit_is_named(tmp_path):
    with pytest.raises(OSError, match=r"is the disk full.: '.*/a\.npy'$"):
        write_atomically(tmp_path / "a.npy", write_array, "a result")
    assert not list(contents(tmp_path))


def write_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(10_000))
