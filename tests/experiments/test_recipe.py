"""The recipe study's tables, and what training a run of a study keeps and tells of its speed."""

import pytest

from data_utils.corpus import open_corpus
from experiments import speeds
from experiments.recipe import report
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import write_json
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"
TINY = {"model.hidden_size": 8, "data.lanes": 4, "data.window": 16, "optim.lr": 1e-3}


def test_a_recipe_is_trained_and_scored(tmp_path):
    result = measure(Recipe("tiny", 64 * 8, TINY), CORPUS, tmp_path / "run", threads=1)
    assert result["failure"] == []
    assert result["characters_read"] == result["rows"][-1]["characters"] == 64 * 8
    assert result["fingerprint"] == open_corpus(CORPUS).fingerprint
    assert result["valid_bits_per_character"] == result["rows"][-1]["valid_bits_per_character"]
    assert result["training_seconds"] > 0


def test_a_speed_is_that_of_the_median_step():
    options = speeds.Options("sizes", corpus=CORPUS, steps=8, threads=1)
    assert speeds.of_shape(Recipe("tiny", 10**9, TINY), options) > 0
    speed = speeds.summary([3.0, 1.0, 2.0])
    assert speed == {"median": 2.0, "least": 1.0, "most": 3.0}


def test_a_run_that_fails_is_kept_with_its_reason_and_has_no_speed(tmp_path):
    bad = Recipe("bad", 64 * 8, {**TINY, "optim.warmup": 2.0})
    result = measure(bad, CORPUS, tmp_path / "run", threads=1)
    assert result["valid_bits_per_character"] is None
    assert "optim.warmup is 2.0" in result["failure"][0]
    with pytest.raises(InputError, match=r"bad failed: optim.warmup is 2.0"):
        speeds.of_shape(bad, speeds.Options("sizes", corpus=CORPUS, threads=1))


def test_the_table_puts_speed_beside_and_the_seeds_apart():
    names = {"muon_1e-2": 2.0, "muon_1e-2_seed_1": 2.2, "bf16": 1.5, "published": None}
    results = [
        {"name": name, "valid_bits_per_character": bits, "failure": ["why"], "keys": {}}
        for name, bits in names.items()
    ]
    results[2] |= {"keys": {"train.precision": "bf16"}, "corpus": "quarter"}
    told = report.table(results, {"bf16": {"median": 0.5}})
    assert "| `bf16` | precision bf16, corpus `quarter` | 1.5000 | -0.5000 | 0.50 |" in told
    assert "| `published` |  | failed: why |  |  |" in told
    seeds = report.finalists(results)
    assert "| muon_1e-2 | 2.0000, 2.2000 | 2.1000 | 0.1414 |" in seeds
    assert "bf16" not in seeds


def test_runs_on_different_corpora_are_not_compared(tmp_path):
    for name, fingerprint in {"muon_1e-2": "a", "bf16": "b"}.items():
        write_json(tmp_path / f"{name}.json", {"name": name, "fingerprint": fingerprint})
    with pytest.raises(InputError, match="different corpora"):
        report.found(tmp_path)
    (tmp_path / "bf16.json").unlink()
    assert [result["name"] for result in report.found(tmp_path)] == ["muon_1e-2"]
