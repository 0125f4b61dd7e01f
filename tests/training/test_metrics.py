"""Rows of metrics: kept up to the checkpoint, torn lines dropped."""

import contextlib
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import InputError
from tests.support.damage import damaged_bytes
from tests.support.trainers import ALONE
from training.metrics import LogConfig, RunLog, keep_rows, read_rows
from training.runs.run_directory import PretrainingDirectory


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_intervals_of_nothing_are_refused():
    with pytest.raises(InputError, match=r"^log\.every_steps is 0; it must be"):
        LogConfig(every_steps=0)


def test_rows_beyond_the_checkpoint_and_torn_lines_are_dropped(path):
    rows = [{"step": step, "value": 0.1 * step} for step in (10, 20, 30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 40, "va')
    assert read_rows(path) == rows
    keep_rows(path, 20)
    assert path.read_text() == "".join(json.dumps(row) + "\n" for row in rows[:2])


ROWS = [{"step": step, "value": 0.1 * step} for step in (10, 20, 30)]
LINES = [json.dumps(row).encode() for row in ROWS]


@pytest.mark.parametrize("torn", [b'{"step": 1', b"\xff\xfe", b"[" * 200_000, b"9" * 5000, b""])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_torn_line_costs_no_other(path, caplog, torn, place):
    path.write_bytes(b"\n".join([*LINES[:place], torn, *LINES[place:]]) + b"\n")
    assert read_rows(path) == ROWS
    assert (f"line {place + 1} is damaged" in caplog.text) == (place < 3)
    keep_rows(path, 20)
    assert path.read_bytes().splitlines() == LINES[:2]


def test_a_line_too_long_for_a_row_takes_no_memory(path, caplog):
    """A sparse file, as a crash of the system may leave one: 256 MiB of NUL before the last row."""
    path.write_bytes(b"".join(line + b"\n" for line in LINES[:2]))
    with path.open("r+b") as file:
        file.seek(1 << 28)
        file.write(b"\n" + LINES[2])
    tracemalloc.start()
    try:
        assert read_rows(path) == ROWS
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
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


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged_bytes(b"\n".join(LINES) + b"\n") | st.binary())
def test_damaged_metrics_are_refused_or_cost_what_is_damaged(path, content):
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        keep_rows(path, 30)
        whole = [line for line in content.splitlines() if line in LINES]
        assert [line for line in path.read_bytes().splitlines() if line in LINES] == whole
        assert all(row["step"] <= 30 for row in read_rows(path))


def test_no_file_is_no_rows(tmp_path):
    assert read_rows(tmp_path / "metrics.jsonl") == []
    keep_rows(tmp_path / "metrics.jsonl", 5)
    assert list(tmp_path.iterdir()) == []


def test_the_numbers_of_all_ranks_are_in_one_event_file(tmp_path):
    row = {
        "step": 5,
        "train_bits_per_character": 2.0,
        "learning_rate": 0.1,
        "characters_per_second": 300.0,
        "rank_characters_per_second": [100.0, 200.0],
        "bottleneck": "compute",
    }
    line = {**row, "seconds": 1.0}
    with RunLog(PretrainingDirectory(tmp_path), 0, 10, world=ALONE) as log:
        log.write(row, line)
    (file,) = (path for path in (tmp_path / "tensorboard").rglob("*") if path.is_file())
    content = file.read_bytes()
    for rank in range(2):
        assert f"rank_characters_per_second/{rank}".encode() in content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is Linux's")
def test_a_row_that_a_full_disk_does_not_take_is_told_by_its_file(tmp_path):
    run = PretrainingDirectory(tmp_path)
    run.metrics.symlink_to("/dev/full")
    with (
        pytest.raises(OSError, match="No space left") as told,
        RunLog(run, 0, 4, world=ALONE) as log,
    ):
        log.write({"step": 1}, {})
    assert told.value.filename == str(run.metrics)
