"""What a failing process reports to torch.distributed.run, which started it."""

import os
import signal
import subprocess
import sys

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from mlstm_sentiment.errors import InputError, TryAgain
from tests.support.runs import ROOT, launch
from training.parallel import launcher

LINE = "[rank 0] error: nowhere: no such corpus"


@pytest.fixture
def error_file(tmp_path, monkeypatch):
    """As the launcher has it for its first process."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    monkeypatch.setenv("LOCAL_RANK", "0")
    return tmp_path / "error.json"


def test_the_summary_of_the_launcher_ends_with_the_line(error_file, capsys, monkeypatch):
    launcher.report_failure(InputError("nowhere"), LINE)
    assert capsys.readouterr().err == f"{LINE}\n"
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(error_file))
    summary = str(ChildFailedError("main.py", {0: failure})).splitlines()
    assert summary[-2].endswith(f": {LINE}")
    error_file.unlink()
    monkeypatch.setenv("LOCAL_RANK", "1")  # the only one that is refused
    report_failure()
    assert capsys.readouterr().err == f"{LINE}\n"
    assert error_file.is_file()


def report_failure():
    """Report without delay, and answer signals as before afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        launcher.report_failure(OSError("nowhere"), LINE, grace=0.0)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("error", "code"), [(InputError, "2"), (TryAgain, "75"), (OSError, None)])
def test_a_launcher_ends_with_the_code_of_what_a_restart_would_repeat(
    tmp_path, error_file, monkeypatch, error, code
):
    ended, file = [], tmp_path / "code"
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    monkeypatch.setenv("MLSTM_EXIT_CODE", str(file))
    monkeypatch.setattr(os, "kill", lambda *of: ended.append(of))
    launcher.report_failure(error("runs/x"), LINE)
    assert (file.read_text() if ended else None) == code
    assert ended == [(os.getppid(), signal.SIGTERM)] * (code is not None)


@pytest.mark.parametrize("first_reports", [True, False])
def test_another_rank_is_silent_where_the_first_has_said_why(tmp_path, first_reports):
    """And no failure. Where the first has only lost it as a peer, nobody else can say why."""
    files = [tmp_path / str(rank) / "error.json" for rank in range(2)]
    for file in files:
        file.parent.mkdir()
    if first_reports:
        files[0].write_text("{}")
    code = (
        "import os, signal, threading, time; from training.parallel import launcher\n"
        "def end():\n"
        "    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL: time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        f"launcher.report_failure(OSError(), {LINE!r}, grace=60)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "LOCAL_RANK": "1", "TORCHELASTIC_ERROR_FILE": str(files[1])},
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "" if first_reports else f"{LINE}\n")
    assert files[1].exists() is not first_reports


@pytest.mark.parametrize("file", ["", "/dev/full/error.json", "nowhere/error.json"])
@pytest.mark.parametrize("rank", ["0", "1"])
def test_an_error_file_that_cannot_be_written_hides_no_line(monkeypatch, capsys, file, rank):
    """Under `--log-dir /dev/null` there is no such file."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", file)
    monkeypatch.setenv("LOCAL_RANK", rank)
    report_failure()
    assert capsys.readouterr().err == f"{LINE}\n"


@pytest.mark.slow
def test_the_line_of_the_user_is_the_last_that_the_launcher_prints():
    process = launch(3, "main.py", "--data.corpus", "nowhere")
    assert process.returncode == 1
    assert "not a prepared corpus" in process.stderr.splitlines()[-2]
    assert "[rank 1] error" not in process.stderr


@pytest.mark.slow
def test_the_line_of_the_only_rank_that_fails_is_printed():
    """Its peer ends for the loss of it, and sooner."""
    process = launch(2, "-m", "tests.ranks.failing")
    assert process.returncode == 1
    assert "[rank 0] error: lost a peer" in process.stderr
    assert "[rank 1] error: not enough memory (of one rank)" in process.stderr, process.stderr
