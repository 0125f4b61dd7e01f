"""The race against the published recipe: its runs are configs, the ladder stops where it should."""

import pytest

from configs.options import RunOptions
from experiments.time_to_target import report, run
from experiments.training_runs import Recipe
from model.errors import InputError
from model.files.storage import read_json
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"
TINY = {"model.hidden_size": 8, "data.lanes": 4, "data.window": 16}


@pytest.fixture(autouse=True)
def _results(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")


@pytest.mark.parametrize("name", ["published", *run.RECIPES["challengers"]])
def test_every_recipe_is_a_config(name, tmp_path):
    changes = {"published": run.RECIPES["published"], **run.RECIPES["challengers"]}[name]
    recipe = Recipe(name, 10**6, {**run.RECIPES["base"], **changes})
    config = RunOptions.from_command_line(recipe.arguments(CORPUS, tmp_path)[1:]).run
    assert config.optim.lr == changes["optim.lr"]
    assert config.model.backend == changes.get("model.backend", "auto")


def race(monkeypatch, bits_after):
    """Run the race with `bits_after(name, characters)` for training; return what was trained."""
    trained = []

    def measured(recipe, corpus, folder, threads):
        trained.append(recipe.name)
        bits = bits_after(recipe.name.split("_")[0], recipe.characters)
        return {
            "valid_bits_per_character": bits,
            "characters": recipe.characters,
            "training_seconds": recipe.characters / 1000,
            "failure": [] if bits else ["error: why"],
        }

    monkeypatch.setattr(run, "measure", measured)
    monkeypatch.setattr("sys.argv", ["run", "--characters", "1600000"])
    run.main()
    return trained


def test_the_shortest_run_that_ends_as_low_counts(monkeypatch):
    def bits_after(name, characters):
        if name == "ours":
            return 2.0 if characters < 50_000 else 1.0
        return 1.5 if name == "published" else 1.6

    trained = race(monkeypatch, bits_after)
    summary = read_json(run.RESULTS / "summary.json")
    assert summary["adam_2e-2"] is None
    assert summary["ours"]["characters"] == 50_000
    assert summary["ours"]["times_less_time"] == summary["ours"]["times_fewer_characters"] == 32
    assert "ours_50000" in trained
    assert "ours_70711" not in trained


def test_an_interrupted_race_goes_on(monkeypatch):
    def never(name, characters):
        return 1.5 if name == "published" else 1.6

    assert race(monkeypatch, never)
    assert race(monkeypatch, never) == []


def test_a_failed_challenger_is_passed_over_and_a_failed_target_refused(monkeypatch, tmp_path):
    race(monkeypatch, lambda name, _: 1.5 if name == "published" else None)
    assert read_json(run.RESULTS / "summary.json")["ours"] is None
    monkeypatch.setattr(run, "RESULTS", tmp_path / "others")
    with pytest.raises(InputError, match="the published recipe failed: error: why"):
        race(monkeypatch, lambda *_: None)


def test_a_run_is_measured(tmp_path):
    options = run.Options(corpus=CORPUS, work=tmp_path / "work", threads=1)
    changes = {**run.RECIPES["challengers"]["ours"], **TINY}
    result = run.kept("ours", 64 * 8, changes, options)
    assert result["failure"] == []
    assert result["training_seconds"] > 0
    assert result == read_json(run.RESULTS / "ours.json")


def test_the_race_is_told_and_drawn(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "HERE", tmp_path)
    with pytest.raises(InputError, match="no race has ended"):
        report.main()
    race(monkeypatch, lambda name, _: {"published": 1.5, "ours": 1.4}.get(name))
    monkeypatch.setattr("sys.argv", ["report"])
    report.main()
    told = capsys.readouterr().out
    assert "| published | 1.5000 | 1,600,000 | 1.0 | 1,600 | 1.0 |" in told
    assert "| ours | 1.4000 | 12,500 | 128.0 | 12 | 128.0 |" in told
    assert "| adam_4e-2 | never as low |" in told
    assert (tmp_path / "race.png").stat().st_size > 1000
    assert report.rungs("adam_4e-2") == []
    assert set(report.COLORS) == {"published", *run.RECIPES["challengers"]}
    assert report.rungs("published") == [(1600.0, 1.5)]
