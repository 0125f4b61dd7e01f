"""Recorded steps: which, by whom, and what happens if the trace cannot be written."""

import json
from contextlib import closing

import pytest
import torch

from model.errors import InputError
from tests.support.runs import done, rows_of, run, small_run
from tests.support.trainers import ALONE, make_trainer, make_window
from training.metrics import LogConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.step_profiler import StepProfiler

CPU = torch.device("cpu")


def taken(path):
    """How many optimizer steps a trace has."""
    events = json.loads(path.read_text())["traceEvents"]
    return sum(str(event.get("name", "")).startswith("Optimizer.step") for event in events)


@pytest.mark.parametrize(
    ("span", "begins_after", "steps", "recorded"),
    [("2:3", 0, 5, 2), ("1:1", 0, 2, 1), ("3:9", 2, 2, 2), ("1:2", 2, 2, None), (None, 0, 2, None)],
)
def test_the_steps_that_were_asked_for_are_recorded(tmp_path, span, begins_after, steps, recorded):
    trainer = make_trainer()
    with closing(StepProfiler(span, tmp_path / "profile", ALONE, begins_after)) as profiler:
        for step in range(begins_after + 1, begins_after + 1 + steps):
            trainer.train(as_batch(make_window(), CPU))
            profiler.advance(step)
    trace = tmp_path / "profile" / "trace-rank-0.json"
    if recorded is None:
        assert not trace.parent.exists()
    else:
        assert taken(trace) == recorded


@pytest.mark.parametrize("span", ["", "3", "3:2", "0:2", "a:b", "1:2:3", "-1:2", "1:99999999999"])
def test_a_malformed_span_is_refused(span):
    with pytest.raises(InputError, match=r"log\.profile is .*such as 10:13"):
        LogConfig(profile=span)


def test_a_run_writes_its_trace_and_the_same_rows_as_without(tmp_path):
    for name, more in (("with", {"log.profile": "3:4"}), ("without", {})):
        done(run(*small_run(tmp_path / name, 6, **more)))
    assert rows_of(tmp_path / "with") == rows_of(tmp_path / "without")
    assert taken(tmp_path / "with" / "profile" / "trace-rank-0.json") == 2
    done(run("main.py", "--resume", tmp_path / "with", "--train.steps", "8",
                  "--log.profile", "7:7"))  # fmt: skip
    assert taken(tmp_path / "with" / "profile" / "trace-rank-0.json") == 1


def test_a_trace_that_cannot_be_written_ends_no_training(tmp_path, caplog):
    (tmp_path / "profile").touch()
    with closing(StepProfiler("1:1", tmp_path / "profile", ALONE, 0)) as profiler:
        profiler.advance(1)
    assert "the training continues" in caplog.text


def test_on_a_gpu_memory_is_recorded_too(tmp_path, monkeypatch):
    calls = []
    memory = torch.cuda.memory
    monkeypatch.setattr(memory, "_record_memory_history", lambda **call: calls.append(call))
    monkeypatch.setattr(memory, "_dump_snapshot", lambda path: calls.append(path))
    with closing(
        StepProfiler("1:1", tmp_path, World(3, 4, torch.device("cuda", 1)), 0)
    ) as profiler:
        profiler.advance(1)
    expected = [{"max_entries": 100_000}, str(tmp_path / "memory-rank-3.pickle"), {"enabled": None}]
    assert calls == expected
    assert (tmp_path / "trace-rank-3.json").is_file()
