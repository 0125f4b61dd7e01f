"""What a run writes as it goes on: rows of metrics, TensorBoard's events, traces of steps."""

import contextlib
import json
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import InputError
from tests.support.damage import damaged_bytes
from tests.support.runs import done, rows_of, run, small_run
from tests.support.trainers import ALONE, make_trainer, make_window
from training.metrics import Board, LogConfig, RunLog, keep_rows, read_rows
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.runs.run_directory import PretrainingDirectory
from training.step_profiler import StepProfiler


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


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
def test_a_row_that_a_full_disk_does_not_take_is_reported_by_its_file(tmp_path):
    run = PretrainingDirectory(tmp_path)
    run.metrics.symlink_to("/dev/full")
    with (
        pytest.raises(OSError, match="No space left") as error,
        RunLog(run, 0, 4, world=ALONE) as log,
    ):
        log.write({"step": 1}, {})
    assert error.value.filename == str(run.metrics)


class GoneWriter:
    """A writer whose folder was removed: its thread has noticed, and every call says so."""

    def __init__(self, folder, purge_step):
        self.calls = 0

    def add_scalar(self, *arguments):
        self.calls += 1
        raise FileNotFoundError("no such folder")

    add_text = close = add_scalar


def test_events_that_cannot_be_written_end_no_training(tmp_path, caplog):
    board = Board(tmp_path, 0, GoneWriter)
    board.show("rank_characters_per_second", [1.0, 2.0], 5)
    board.show("bottleneck", "compute", 5)
    board.add_text("sample", "a text", 5)
    board.close()
    assert caplog.text.count("cannot write events (no such folder); the training continues") == 1
    assert board._writer.calls == 2  # the first, and the end of the writer's thread


def test_events_that_fail_at_the_very_end_are_reported_too(tmp_path, caplog):
    Board(tmp_path, 0, GoneWriter).close()
    assert caplog.text.count("cannot write events") == 1


CPU = torch.device("cpu")


def steps_in(path):
    """Return how many optimizer steps a trace has."""
    events = json.loads(path.read_text())["traceEvents"]
    return sum(str(event.get("name", "")).startswith("Optimizer.step") for event in events)


@pytest.mark.parametrize(
    ("span", "begins_after", "steps", "recorded"),
    [
        ("2:3", 0, 5, 2),
        ("1:1", 0, 2, 1),
        ("3:9", 2, 2, 2),
        ("1:4", 2, 4, 2),
        ("1:2", 2, 2, None),
        ("5:9", 2, 2, None),
    ],
)
def test_the_steps_that_were_asked_for_are_recorded(
    tmp_path, caplog, span, begins_after, steps, recorded
):
    trainer, last = make_trainer(), begins_after + steps
    with closing(StepProfiler(span, tmp_path / "profile", ALONE, begins_after, last)) as profiler:
        for step in range(begins_after + 1, last + 1):
            trainer.train(as_batch(make_window(), CPU))
            profiler.advance(step)
    trace = tmp_path / "profile" / "trace-rank-0.json"
    if recorded is None:
        assert not trace.parent.exists()
        assert f"log.profile is {span}, but the training goes from step 2 to step 4" in caplog.text
    else:
        assert steps_in(trace) == recorded
        assert "no step is recorded" not in caplog.text


def test_after_a_resume_steps_that_were_recorded_are_not_missed(tmp_path, caplog):
    StepProfiler("1:2", tmp_path, ALONE, 2, 4)
    StepProfiler("1:2", tmp_path / "profile", World(1, 2, CPU), 2, 4)  # the main rank warns
    assert not caplog.records


@pytest.mark.parametrize("span", ["", "3", "3:2", "0:2", "a:b", "1:2:3", "-1:2", "1:99999999999"])
def test_a_malformed_span_is_refused(span):
    with pytest.raises(InputError, match=r"log\.profile is .*such as 10:13"):
        LogConfig(profile=span)


def test_a_run_writes_its_trace_and_the_same_rows_as_without(tmp_path):
    for name, more in (("with", {"log.profile": "3:4"}), ("without", {})):
        done(run(*small_run(tmp_path / name, 6, **more)))
    assert rows_of(tmp_path / "with") == rows_of(tmp_path / "without")
    assert steps_in(tmp_path / "with" / "profile" / "trace-rank-0.json") == 2
    done(run("main.py", "--resume", tmp_path / "with", "--train.steps", "8",
                  "--log.profile", "7:7"))  # fmt: skip
    assert steps_in(tmp_path / "with" / "profile" / "trace-rank-0.json") == 1


def test_a_trace_that_cannot_be_written_ends_no_training(tmp_path, caplog):
    (tmp_path / "profile").touch()
    with closing(StepProfiler("1:1", tmp_path / "profile", ALONE, 0, 1)) as profiler:
        profiler.advance(1)
    assert "the training continues" in caplog.text


def test_on_a_gpu_memory_is_recorded_too(tmp_path, monkeypatch):
    calls = []
    memory = torch.cuda.memory
    monkeypatch.setattr(memory, "_record_memory_history", lambda **call: calls.append(call))
    monkeypatch.setattr(memory, "_dump_snapshot", lambda path: calls.append(path))
    with closing(
        StepProfiler("1:1", tmp_path, World(3, 4, torch.device("cuda", 1)), 0, 1)
    ) as profiler:
        profiler.advance(1)
    expected = [{"max_entries": 100_000}, str(tmp_path / "memory-rank-3.pickle"), {"enabled": None}]
    assert calls == expected
    assert (tmp_path / "trace-rank-3.json").is_file()
