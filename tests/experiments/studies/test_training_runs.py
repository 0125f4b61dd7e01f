"""What training a run of a study keeps and tells of its speed; how a run that fails is ended."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from data_utils.corpus import open_corpus
from experiments import speeds, training_runs
from experiments.training_runs import Recipe, measure, reason_in, run_to_end
from model.errors import InputError
from model.files.storage import step_of
from tests.support.runs import ROOT
from training.runs.named_checkpoints import whole_checkpoint

CORPUS = ROOT / "tests/fixtures/v1/corpus"
TINY = {"model.hidden_size": 8, "data.lanes": 4, "data.window": 16, "optim.lr": 1e-3}
TINY["evaluate.sample_length"] = 8


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("W1 elastic\n[rank 1] error: parallel.flat is no\nx.errors.ChildFailedError: \n",
         "parallel.flat is no"),
        ("[rank 0] error: lost a peer: gloo\n[rank1]: torch.OutOfMemoryError: CUDA\n",
         "torch.OutOfMemoryError: CUDA"),
        ("[rank 0] error: lost a peer: gloo\n"
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
         "  traceback : Signal 9 (SIGKILL) received by PID 7\n", "Signal 9 (SIGKILL) received by"),
        ("[rank 0] error: lost a peer: gloo\n", "lost a peer: gloo"),
        ("a warning\n[rank 0] error: the loss is not finite\n"
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n",
         "the loss is not finite"),
        ("main.py: error: no such corpus\n", "no such corpus"),
        ("error: optim.warmup is 2.0\n", "optim.warmup is 2.0"),
        ("Killed\n", "Killed"),
        ("srun: no such partition\n\n", "srun: no such partition"),
        ("[rank 1] error: lost a peer: wait timeout\n"
         "  traceback : Signal 15 (SIGTERM) received by PID 7\n", "lost a peer: wait timeout"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_failure_is_its_cause(said, reason):
    assert reason_in(said).startswith(reason)
    assert bool(reason_in(said)) == bool(reason)


def test_a_run_says_why_it_failed():
    assert run_to_end([sys.executable, "-S", "-c", "raise MemoryError('no room')"], 1) == (
        "MemoryError: no room"
    )
    assert run_to_end([sys.executable, "-S", "-c", "raise SystemExit(3)"], 1) == "exit code 3"
    assert run_to_end([sys.executable, "-S", "-c", ""], 1) is None


def test_a_run_that_takes_too_long_is_ended(tmp_path):
    (tmp_path / "run.sh").write_text(f"trap '' TERM\necho $$ > {tmp_path}/id\nsleep 60\n")
    words = ["sh", str(tmp_path / "run.sh")]
    assert run_to_end(words, 1, timeout=0.7, grace=0.3) == "took longer than 0.7 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


def test_a_recipe_is_trained_and_scored(tmp_path):
    result = measure(Recipe("tiny", 64 * 8, TINY), CORPUS, tmp_path / "run", threads=1)
    assert result["failure"] == []
    assert result["characters_read"] == result["rows"][-1]["characters"] == 64 * 8
    assert result["fingerprint"] == open_corpus(CORPUS).fingerprint
    assert result["valid_bits_per_character"] == result["rows"][-1]["valid_bits_per_character"]
    assert result["training_seconds"] > 0


def test_an_interrupted_run_goes_on_and_learns_the_same(tmp_path):
    steps = 1500
    recipe = Recipe("tiny", 64 * steps, TINY)
    metrics = tmp_path / "run/metrics.jsonl"
    interrupter = threading.Thread(target=interrupt_after_a_row, args=[metrics], daemon=True)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        measure(recipe, CORPUS, tmp_path / "run", threads=1)
    interrupter.join()
    stopped_at = step_of(whole_checkpoint(tmp_path / "run/checkpoint", None))
    assert 0 < stopped_at < steps
    resumed = measure(recipe, CORPUS, tmp_path / "run", threads=1)
    whole = measure(recipe, CORPUS, tmp_path / "whole", threads=1)
    assert resumed["failure"] == whole["failure"] == []
    assert bits_of(resumed) == bits_of(whole)


def interrupt_after_a_row(metrics):
    deadline = time.monotonic() + 60
    while not metrics.is_file() or not metrics.stat().st_size:
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def bits_of(result):
    names = ("characters", "train_bits_per_character", "valid_bits_per_character")
    return [[row.get(name) for name in names] for row in result["rows"]]


@pytest.mark.parametrize("change", ["", "recipe", "revision", "ranks", "ended"])
def test_only_the_same_run_that_has_not_ended_goes_on(tmp_path, monkeypatch, change):
    folder, recipe, ranks = tmp_path / "work/run", Recipe("tiny", 64 * 8, TINY), 1
    commands = []

    def begin(words, threads):
        commands.append(words)
        if "--resume" not in words:
            folder.mkdir()  # fails if the old run is still there
            (folder / "config.toml").touch()
        if len(commands) == 1 and change != "ended":
            raise KeyboardInterrupt

    monkeypatch.setattr(training_runs, "run_to_end", begin)
    with suppress(KeyboardInterrupt):
        measure(recipe, CORPUS, folder, threads=1)
    if change == "recipe":
        recipe = replace(recipe, keys={**TINY, "optim.lr": 2e-3})
    elif change == "revision":
        monkeypatch.setattr(training_runs, "git_revision", lambda: "another")
    elif change == "ranks":
        ranks = 2
    measure(recipe, CORPUS, folder, threads=1, ranks=ranks)
    assert ("--resume" in commands[1]) == (change == "")


def test_a_speed_is_that_of_the_median_step():
    rows = [{"characters_per_second": speed} for speed in (9.0, 9.0, 9.0, 9.0, 3.0, 1.0, 2.0)]
    assert speeds.of_median_step({"failure": [], "rows": rows}) == 2.0
    short = speeds.shortened(Recipe("tiny", 10**9, TINY), steps=8)
    assert (short.steps, short.characters) == (8, 8 * 4 * 16)
    assert short.keys["log.every_steps"] == 1
    speed = speeds.summary([3.0, 1.0, 2.0])
    assert speed == {"median": 2.0, "least": 1.0, "most": 3.0}


def test_a_run_that_fails_is_kept_with_its_reason_and_has_no_speed(tmp_path):
    bad = Recipe("bad", 64 * 8, {**TINY, "optim.warmup": 2.0})
    result = measure(bad, CORPUS, tmp_path / "run", threads=1)
    assert result["valid_bits_per_character"] is None
    assert "optim.warmup is 2.0" in result["failure"][0]
    with pytest.raises(InputError, match=r"bad failed: optim.warmup is 2.0"):
        speeds.of_median_step(result)


def test_a_shape_is_timed_in_the_precision_that_most_runs_have():
    keys = {"model.hidden_size": 8, "data.lanes": 64, "train.precision": "bf16"}
    runs = [
        Recipe("odd", 1, {**keys, "train.precision": "fp32"}),
        Recipe("usual", 1, keys),
        Recipe("other lanes", 1, {**keys, "data.lanes": 32}),
        Recipe("another corpus", 1, keys, "short"),
        Recipe("odd alone", 1, {**keys, "model.cell": "gru", "train.precision": "fp32"}),
        Recipe("again", 1, keys),
        Recipe("adam", 1, {**keys, "optim.name": "adam"}),
    ]
    assert {name: run.name for name, run in speeds.first_of_shapes(runs).items()} == {
        "mlstm_8": "usual",
        "mlstm_8_32_lanes": "other lanes",
        "mlstm_8_short": "another corpus",
        "gru_8": "odd alone",
        "mlstm_8_adam": "adam",
    }


@pytest.mark.parametrize("windows", [1, 2])
def test_a_shortened_run_has_the_steps_asked_for(windows):
    keys = {"data.lanes": 4, "data.window": 8, "parallel.windows_per_step": windows}
    short = speeds.shortened(Recipe("a", 10**6, keys), 6)
    assert short.steps == 6
    assert short.keys["log.every_steps"] == 1
