"""The progress that a command shows, and how much of a file has been read."""

import time
from contextlib import redirect_stderr

from mlstm_sentiment.reading import progress
from mlstm_sentiment.reading.inputs import Position
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.rows import Rows
from mlstm_sentiment.reading.source import Source
from tests.support.terminal import Terminal


def test_without_a_terminal_progress_is_an_occasional_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    with ProgressBar("classify", 1000) as bar:
        for _ in range(3):
            time.sleep(0.06)
            bar.note("7 rows/s")
            bar.advance(250)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 3
    assert lines[0].startswith("classify:  25% 250/1.00k [")
    assert "k tokens/s, 7 rows/s]" in lines[1]
    assert not any("\r" in line for line in lines)


def test_a_short_job_leaves_its_log_empty(capsys):
    with ProgressBar("classify", 1000) as bar:
        bar.advance(1000)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar_unless_it_is_not_wanted():
    for shown in (True, False):
        terminal = Terminal()
        with redirect_stderr(terminal), ProgressBar("classify", 1000, shown=shown) as bar:
            bar.advance(1000)
        assert ("100%|" in terminal.getvalue()) == shown


def test_a_bar_may_wait_until_its_part_turns_out_to_be_long():
    for delay, is_drawn in ((60, False), (0.05, True)):
        terminal = Terminal()
        with redirect_stderr(terminal), ProgressBar("check", 2, delay=delay) as bar:
            bar.advance(1)
            time.sleep(0.15)
            bar.advance(1)
        assert ("100%|" in terminal.getvalue()) == is_drawn


def test_what_was_done_before_counts_and_steps_are_not_bytes(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    with ProgressBar("learn", 2000, unit=" steps", done=1500) as bar:
        for _ in range(2):
            time.sleep(0.06)
            bar.advance(100)
    assert capsys.readouterr().err.startswith("learn:  80% 1600/2000 [")


def test_the_fraction_read_follows_the_readers_position(tmp_path):
    (tmp_path / "texts.txt").write_text("good\n" * 100_000)
    position = Position()
    records = read_records(tmp_path / "texts.txt", strict=True, position=position)
    assert position.fraction is None
    next(records)
    assert 0 < position.fraction < 0.9
    assert len(list(records)) == 99_999
    assert position.fraction == 1


def test_the_check_of_a_file_shows_its_progress_only_on_request(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    (tmp_path / "texts.txt").write_text("good\n" * 10)
    Rows(Source(tmp_path / "texts.txt"))
    assert capsys.readouterr().err == ""
    Rows(Source(tmp_path / "texts.txt"), show_progress=True)
    assert "check: 100% 10/10" in capsys.readouterr().err
