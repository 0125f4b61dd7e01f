"""Rows of metrics: kept up to the checkpoint, torn lines dropped."""

import json

from training.metrics import keep_rows, read_rows


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
