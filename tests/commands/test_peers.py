"""Another cell through every command: pretrained, resumed, on two ranks, and used."""

import json
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.support.runs import done, rows_of, run, run_ranks, small_run


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["lstm", "gru", "transformer"])
def test_every_command_works_with_another_cell(cell, tmp_path, write_reviews):
    whole, cut, ranks = (tmp_path / name for name in ("whole", "cut", "ranks"))
    changes = {"model.cell": cell, "optim.name": "muon", "train.precision": "fp32"}
    assert "recurrence: torch" in done(run(*small_run(whole, 12, **changes))).stdout
    rows = rows_of(whole)
    assert rows[-1]["valid_bits_per_character"] < rows[0]["train_bits_per_character"]

    shutil.copytree(whole, cut)
    shutil.rmtree(cut / "checkpoint" / "step-00000012")
    done(run("main.py", "--resume", cut))
    assert rows_of(cut) == rows
    file = "checkpoint/step-00000012/lanes.safetensors"
    before, after = load_file(whole / file), load_file(cut / file)
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)

    for process in run_ranks(2, *small_run(ranks, 12, **changes)):
        done(process)
    for row, expected in zip(rows_of(ranks), rows, strict=True):
        assert row == pytest.approx(expected, rel=1e-4)  # fp32: sums in another order

    reviews = write_reviews("reviews.jsonl", 60)
    pairs = ("--model", whole, "--data", reviews, "--output", tmp_path / "score.json")
    done(run("scripts/evaluate.py", *pairs))
    assert 0 < json.loads((tmp_path / "score.json").read_text())["bits_per_character"] < 8
    pairs = ("--model", whole, "--input", reviews, "--output", tmp_path / "f.npy")
    done(run("scripts/featurize.py", *pairs))
    assert np.load(tmp_path / "f.npy").shape == (60, 16)
    sets = (word for split in ("train", "val", "test") for word in (f"--{split}", reviews))
    done(run("scripts/transfer.py", "--model", whole, *sets, "--output", tmp_path / "transfer"))
    assert json.loads((tmp_path / "transfer" / "results.json").read_text())["train_accuracy"] > 0.5
    asked = ("--prompt", "It is", "--length", "40", "--neuron", "3", "--value", "1.5")
    assert done(run("scripts/generate.py", "--model", whole, *asked)).stdout.startswith("It is")
