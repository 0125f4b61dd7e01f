"""Rows of metrics: kept up to the checkpoint, torn lines dropped."""

import json

from training.metrics import RunLog, keep_rows, read_rows
from training.run_directory import RunDirectory


def test_rows_beyond_the_checkpoint_and_torn_lines_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "value": 0.1 * step} for step in (10, 20, 30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 40, "va')
    assert read_rows(path) == rows
    keep_rows(path, 20)
    assert path.read_text() == "".join(json.dumps(row) + "\n" for row in rows[:2])


def test_no_file_is_no_rows(tmp_path):
    assert read_rows(tmp_path / "metrics.jsonl") == []
    keep_rows(tmp_path / "metrics.jsonl", 5)
    assert list(tmp_path.iterdir()) == []


def test_what_each_rank_says_is_in_the_one_event_file(tmp_path):
    row = {
        "step": 5,
        "train_bits_per_character": 2.0,
        "learning_rate": 0.1,
        "characters_per_second": 300.0,
        "rank_characters_per_second": [100.0, 200.0],
        "bottleneck": "compute",
    }
    with RunLog(RunDirectory(tmp_path), 0, 10, enabled=True) as log:
        log.write(row)
    (file,) = (path for path in (tmp_path / "tensorboard").rglob("*") if path.is_file())
    content = file.read_bytes()
    for rank in range(2):
        assert f"rank_characters_per_second/{rank}".encode() in content
