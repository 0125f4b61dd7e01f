"""Rows are sent to a tracker with wandb's interface, and its failures do not end the run."""

import json
import sys
from types import SimpleNamespace

import pytest

from model.errors import InputError
from tests.support.runs import assert_refused, rows_of, run, run_code, small_run
from training.monitoring.tracker import Tracker

PACKAGE = """
import json, pathlib
calls = pathlib.Path({path!r})
def note(*call):
    with open(calls, "a") as file: file.write(json.dumps(call) + "\\n")
def init(**given): note("init", given)
def log(numbers, step): note("log", numbers, step)
def finish(): note("finish")
"""


def test_a_run_sends_its_rows(tmp_path):
    calls, folder = tmp_path / "calls.jsonl", tmp_path / "run"
    (tmp_path / "my_tracker.py").write_text(PACKAGE.format(path=str(calls)))
    words = list(map(str, small_run(folder, 10, **{"log.tracker": "my_tracker"})))
    code = f"import runpy, sys; sys.path.append({str(tmp_path)!r}); sys.argv = {words}; "
    process = run_code(code + "runpy.run_path('main.py', run_name='__main__')")
    assert process.returncode == 0, process.stderr
    (_, begun), *logged, ended = map(json.loads, calls.read_text().splitlines())
    assert begun["name"] == "run"
    assert begun["config"]["model.hidden_size"] == "16"
    rows = rows_of(folder)
    assert [step for _, _, step in logged] == [row["step"] for row in rows]
    assert logged[0][1]["train_bits_per_character"] == rows[0]["train_bits_per_character"]
    assert ended == ["finish"]


def test_a_package_that_is_missing_is_one_line(tmp_path):
    process = run(*small_run(tmp_path / "run", 2, **{"log.tracker": "no_such_tracker"}))
    assert_refused(process, "log.tracker is no_such_tracker", "pip install no_such_tracker")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("", "'': cannot be imported .ValueError: Empty module name"),
        ("broken_tracker", "'broken_tracker': cannot be imported .TypeError: too old"),
    ],
)
def test_a_package_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch, package, reason):
    (tmp_path / "broken_tracker.py").write_text("raise TypeError('too old')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=f"^log.tracker is {reason}"):
        Tracker(package, "run", {})


def failing(*given, **how):
    raise ConnectionError("no network")


def test_a_failure_is_reported_once_and_does_not_end_training(monkeypatch, caplog):
    package = SimpleNamespace(
        __name__="tracker", init=lambda **given: None, log=failing, finish=failing
    )
    monkeypatch.setitem(sys.modules, "tracker", package)
    tracker = Tracker("tracker", "run", {})
    for step in (1, 2):
        tracker.write({"step": step, "bottleneck": "compute"})
    tracker.close()
    assert [record.getMessage() for record in caplog.records] == [
        "tracker does not accept rows: no network",
        "tracker could not end its run: no network",
    ]
    package.init = failing
    with pytest.raises(InputError, match="started no run"):
        Tracker("tracker", "run", {})
