"""What a run writes as it goes on: rows of metrics and TensorBoard's events."""

import contextlib
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlstm_sentiment.errors import InputError
from tests.support.damage import damaged_bytes
from tests.support.trainers import ALONE
from training import run_log
from training.run_log import Board, RunLog
from training.runs.run_directory import PretrainingDirectory, keep_rows, read_rows
from training.trainer import PretrainingProgress


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


ROWS = [{"step": step, "value": 0.1 * step} for step in (10, 20, 30)]
LINES = [json.dumps(row).encode() for row in ROWS]


@pytest.mark.parametrize(
    ("torn", "place"),
    [
        *((b'{"step": 1', place) for place in (0, 1, 3)),
        *((torn, 1) for torn in (b"\xff\xfe", b"[" * 200_000, b"9" * 5000, b"")),
    ],
)
def test_a_torn_line_costs_no_other(path, caplog, torn, place):
    path.write_bytes(b"\n".join([*LINES[:place], torn, *LINES[place:]]) + b"\n")
    assert read_rows(path) == ROWS
    assert (f"line {place + 1} is damaged" in caplog.text) == (place < 3)
    keep_rows(path, 20)
    assert path.read_bytes().splitlines() == LINES[:2]


def test_a_stretch_of_nul_that_a_crash_of_the_system_left_costs_no_row(path, caplog):
    path.write_bytes(b"\n".join([*LINES[:2], bytes(1 << 21), LINES[2]]))
    assert read_rows(path) == ROWS
    assert "line 3 is damaged" in caplog.text


@pytest.mark.parametrize(
    "line", [b"12", b'{"a": 1}', b"null", b'{"step": "4"}', b'{"step": 1.5}', b'{"step": true}']
)
def test_a_line_that_is_no_row_is_refused_by_its_number(path, line):
    content = b"\n".join([LINES[0], line, LINES[1]])
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics\.jsonl: line 2 is not a row of metrics"):
        keep_rows(path, 20)
    assert path.read_bytes() == content


def test_no_file_is_no_rows(path):
    assert read_rows(path) == []
    keep_rows(path, 5)
    assert not path.exists()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged_bytes(b"\n".join(LINES) + b"\n") | st.binary())
def test_damaged_metrics_are_refused_or_cost_what_is_damaged(path, content):
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        keep_rows(path, 30)
        whole = [line for line in content.splitlines() if line in LINES]
        assert [line for line in path.read_bytes().splitlines() if line in LINES] == whole
        assert all(row["step"] <= 30 for row in read_rows(path))


def test_the_numbers_of_all_ranks_are_in_one_event_file(tmp_path):
    row = {
        "step": 5,
        "train_bits_per_character": 2.0,
        "learning_rate": 0.1,
        "characters_per_second": 300.0,
        "rank_characters_per_second": [100.0, 200.0],
        "bottleneck": "compute",
    }
    with RunLog(PretrainingDirectory(tmp_path), PretrainingProgress(), 10, world=ALONE) as log:
        log.write(row)
    (file,) = (path for path in (tmp_path / "tensorboard").rglob("*") if path.is_file())
    content = file.read_bytes()
    for rank in range(2):
        assert f"rank_characters_per_second/{rank}".encode() in content


def test_the_bar_of_a_resume_begins_at_its_step_even_if_that_has_an_open_row(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = PretrainingDirectory(tmp_path)
    run.metrics.write_bytes(b"\n".join(LINES) + b"\n")
    progress = PretrainingProgress(step=30, open_row={"step": 30})
    RunLog(run, progress, 40, world=ALONE).__exit__()
    assert "30/40" in capsys.readouterr().err
    assert [row["step"] for row in read_rows(run.metrics)] == [10, 20]


@pytest.mark.parametrize("largest_file", [10_000], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_a_row_that_a_full_disk_does_not_take_is_reported_by_its_file(tmp_path):
    run = PretrainingDirectory(tmp_path)
    with (
        pytest.raises(OSError, match="File too large") as error,
        RunLog(run, PretrainingProgress(), 4, world=ALONE) as log,
    ):
        log.write({"step": 1, "text": "long " * 3000})
    assert error.value.filename == str(run.metrics)


class GoneWriter:
    """A writer whose folder was removed: its thread has noticed, and every call says so."""

    def __init__(self, folder, purge_step):
        self.calls = 0

    def add_scalar(self, *arguments):
        self.calls += 1
        raise FileNotFoundError("no such folder")

    add_text = close = add_scalar


def test_events_that_cannot_be_written_end_no_training(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(run_log, "SummaryWriter", GoneWriter)
    board = Board(tmp_path, 0)
    board.show("rank_characters_per_second", [1.0, 2.0], 5)
    board.show("bottleneck", "compute", 5)
    board.add_text("sample", "a text", 5)
    board.close()
    assert caplog.text.count("cannot write events (no such folder); the training continues") == 1
    assert board._writer.calls == 2  # the first, and the end of the writer's thread
    caplog.clear()
    Board(tmp_path, 0).close()  # fails at the very end
    assert caplog.text.count("cannot write events") == 1
