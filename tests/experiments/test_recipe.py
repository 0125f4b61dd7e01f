"""The recipe study: its list of runs, one of them made, and what is told of it."""

import pytest

from configs.options import RunOptions
from experiments.recipe import report, run
from experiments.recipe.run import Recipe, read_recipes, train
from model.errors import InputError
from model.storage import read_json
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"
TINY = {"model.hidden_size": 8, "data.lanes": 4, "data.window": 16, "optim.lr": 1e-3}


@pytest.fixture(autouse=True)
def _results(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "HERE", tmp_path)


@pytest.mark.parametrize("recipe", read_recipes().values(), ids=lambda recipe: recipe.name)
def test_every_recipe_is_a_config(recipe, tmp_path):
    arguments = recipe.arguments(CORPUS, tmp_path)
    config = RunOptions.from_command_line(arguments[1:]).run
    read = config.train.steps * config.data.lanes * config.data.window
    assert read == pytest.approx(recipe.characters, rel=0.01)


def test_a_recipe_is_trained_scored_and_reported(tmp_path, capsys):
    keys = {**TINY, "optim.name": "muon"}
    line = train(Recipe("adam_2e-3", 64 * 8, keys), CORPUS, tmp_path / "run")
    result = read_json(run.RESULTS / "adam_2e-3.json")
    assert result["failure"] == []
    assert result["rows"][-1]["characters"] == 64 * 8
    assert result["valid_bits_per_character"] == result["rows"][-1]["valid_bits_per_character"]
    assert f"{result['valid_bits_per_character']}" in line
    report.main()
    assert f"| adam_2e-3 | {result['valid_bits_per_character']:.4f} |" in capsys.readouterr().out
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_a_run_that_fails_is_kept_with_its_last_line(tmp_path, capsys):
    keys = {**TINY, "optim.name": "muon", "optim.warmup": 2.0}
    train(Recipe("adam_2e-3", 64 * 8, keys), CORPUS, tmp_path / "run")
    result = read_json(run.RESULTS / "adam_2e-3.json")
    assert result["valid_bits_per_character"] is None
    assert "optim.warmup is 2.0" in result["failure"][0]
    report.main()
    assert "| failed: optim.warmup is 2.0" in capsys.readouterr().out


def test_an_unknown_name_is_refused(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run", "nonsense"])
    with pytest.raises(InputError, match=r"not in runs.toml: nonsense"):
        run.main()
