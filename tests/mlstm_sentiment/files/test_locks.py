"""One process at a time holds a folder; a killed process leaves no lock."""

import errno
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import filelock
import pytest

from mlstm_sentiment.errors import InputError, TryAgain
from mlstm_sentiment.files.storage import (
    HOLDER_FILE,
    LOCK_FILE,
    lock_folder,
    one_at_a_time,
)
from tests.data_utils.preparation.interruptions import acting_at
from tests.support.folders import contents
from tests.support.runs import ROOT

HOLDS = """
import sys, time
from pathlib import Path
from mlstm_sentiment.files.storage import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_holder_is_named_and_a_kill_frees_the_lock(tmp_path):
    folder = tmp_path / "a" / "run"
    command = [sys.executable, "-c", HOLDS, folder]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        who = f"{folder}: in use by process {process.pid} on {socket.gethostname()} since 2"
        with pytest.raises(InputError) as caught, lock_folder(folder):
            pass
        assert str(caught.value).startswith(who)
        process.kill()
        process.wait()
        with lock_folder(folder):
            (folder / "kept").touch()
    assert [path.name for path in contents(folder)] == ["kept"]


def test_what_a_holder_killed_in_recording_itself_left_is_removed(tmp_path):
    for name in (f".{HOLDER_FILE}.0123abcd.partial", ".theirs.0123abcd.partial"):
        (tmp_path / name).touch()
    with lock_folder(tmp_path):
        pass
    assert [path.name for path in contents(tmp_path)] == [".theirs.0123abcd.partial"]


def test_an_unnamed_holder_also_refuses_others(tmp_path):
    with (
        filelock.FileLock(tmp_path / LOCK_FILE),
        pytest.raises(InputError, match="in use by another process"),
        lock_folder(tmp_path),
    ):
        pass


def test_a_holder_that_is_about_to_end_is_waited_for(tmp_path):
    held, over = Event(), Event()

    def hold():
        with lock_folder(tmp_path):
            held.set()
            assert over.wait(60)

    with ThreadPoolExecutor(1) as threads:
        holder = threads.submit(hold)
        assert held.wait(60)
        with (
            acting_at("waiting up to 60 s", over.set, "mlstm_sentiment"),
            lock_folder(tmp_path, timeout=60),
        ):
            assert over.is_set()
        holder.result()


def test_a_folder_that_goes_as_it_is_looked_at_is_no_file(tmp_path, monkeypatch):
    folder, look, looked = tmp_path / "run", Path.stat, []
    folder.mkdir()

    def gone_after(path, **options):
        status = look(path, **options)
        if path == folder and not looked:
            looked.append(path)
            folder.rmdir()
        return status

    monkeypatch.setattr(Path, "stat", gone_after)
    with lock_folder(folder):
        assert (folder / ".lock").is_file()


def test_a_folder_that_its_holder_removes_meanwhile_is_to_be_tried_again(tmp_path, monkeypatch):
    def removed(lock, **options):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), lock.lock_file)

    monkeypatch.setattr(filelock.FileLock, "acquire", removed)
    message = "run: was just removed by another process; start again"
    with pytest.raises(TryAgain, match=message), lock_folder(tmp_path / "run"):
        pass


@pytest.mark.parametrize("place", ["run", "runs"])
@pytest.mark.parametrize("new", [True, False])
def test_a_folder_on_a_disk_that_is_not_there_is_refused(tmp_path, place, new):
    (tmp_path / place).symlink_to("/nonexistent/disk")
    folder = tmp_path / "run" if place == "run" else tmp_path / "runs" / "run"
    with (
        pytest.raises(InputError, match=f"/{place}: is a broken link; is its disk mounted?"),
        lock_folder(folder, new=new),
    ):
        pass


def test_an_unused_folder_is_removed(tmp_path):
    with lock_folder(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
    assert not list(contents(tmp_path))


@pytest.mark.usefixtures("without_file_locks")
def test_without_file_locks_it_warns_and_continues(tmp_path, caplog):
    for _ in range(2):  # nor does the first one leave anything that the second takes for a lock
        with lock_folder(tmp_path):
            (tmp_path / "kept").touch()
        assert "this file system has no locks (Function not implemented)" in caplog.text
        assert [path.name for path in contents(tmp_path)] == ["kept"]


@pytest.mark.usefixtures("without_file_locks")
def test_without_file_locks_a_file_is_written_with_a_warning(tmp_path, caplog):
    for _ in range(2):
        with one_at_a_time(tmp_path / "lock", "busy"):
            pass
        assert "this file system has no locks (Function not implemented)" in caplog.text
        assert not list(contents(tmp_path))


def test_a_lock_of_another_user_lets_nobody_in(tmp_path, monkeypatch):
    def denied(lock, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), lock.lock_file)

    lock = tmp_path / "lock"
    lock.touch()
    for hold in (one_at_a_time(lock, "busy"), lock_folder(tmp_path)):
        with monkeypatch.context() as patch:
            patch.setattr(filelock.FileLock, "acquire", denied)
            with pytest.raises(PermissionError), hold:
                pytest.fail("entered")
    assert lock.is_file()


def test_a_file_is_no_folder(tmp_path):
    path = Path(tmp_path / "run")
    path.write_text("kept")
    with pytest.raises(InputError, match="is a file"), lock_folder(path):
        pass
    assert path.read_text() == "kept"
