"""The race against the published recipe: its runs are configs, the ladder stops where it should."""

import pytest

from configs.options import RunOptions
from experiments.time_to_target import report, run
from experiments.training_runs import Recipe
from model.errors import InputError
from model.files.storage import read_json
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"


@pytest.mark.parametrize("name", ["published", *run.RECIPES["challengers"]])
def test_every_recipe_is_a_config(name, tmp_path):
    changes = {"published": run.RECIPES["published"], **run.RECIPES["challengers"]}[name]
    recipe = Recipe(name, 10**6, {**run.RECIPES["base"], **changes})
    config = RunOptions.from_command_line(recipe.arguments(CORPUS, tmp_path)[1:]).run
    assert config.optim.lr == changes["optim.lr"]
    assert config.model.backend == changes.get("model.backend", "auto")


def race(folder, bits_after):
    """Run the race with `bits_after(name, characters)` for training; return what was trained."""
    trained = []

    def measured(recipe, corpus, _, threads):
        trained.append(recipe.name)
        bits = bits_after(recipe.name.split("_")[0], recipe.characters)
        return {
            "valid_bits_per_character": bits,
            "characters": recipe.characters,
            "training_seconds": recipe.characters / 1000,
            "failure": [] if bits else ["error: why"],
        }

    run.race(run.Options(characters=1_600_000, results=folder), measured)
    return trained


def test_the_shortest_run_that_ends_as_low_counts(tmp_path):
    def bits_after(name, characters):
        if name == "ours":
            return 2.0 if characters < 50_000 else 1.0
        return 1.5 if name == "published" else 1.6

    trained = race(tmp_path, bits_after)
    summary = read_json(tmp_path / "summary.json")
    assert summary["adam_2e-2"] is None
    assert summary["ours"]["characters"] == 50_000
    assert summary["ours"]["times_less_time"] == summary["ours"]["times_fewer_characters"] == 32
    assert "ours_50000" in trained
    assert "ours_70711" not in trained
    assert race(tmp_path, bits_after) == []  # an interrupted race goes on


def test_a_failed_challenger_is_passed_over_and_a_failed_target_refused(tmp_path):
    race(tmp_path, lambda name, _: 1.5 if name == "published" else None)
    assert read_json(tmp_path / "summary.json")["ours"] is None
    with pytest.raises(InputError, match="the published recipe failed: error: why"):
        race(tmp_path / "others", lambda *_: None)


def test_the_race_is_told_and_drawn(tmp_path):
    race(tmp_path, lambda name, _: {"published": 1.5, "ours": 1.4}.get(name))
    told = report.table(read_json(tmp_path / "summary.json"))
    assert "| published | 1.5000 | 1,600,000 | 1.0 | 1,600 | 1.0 |" in told
    assert "| ours | 1.4000 | 12,500 | 128.0 | 12 | 128.0 |" in told
    assert "| adam_4e-2 | never as low |" in told
    report.draw(tmp_path, tmp_path / "race.png")
    assert (tmp_path / "race.png").stat().st_size > 1000
    assert report.rungs(tmp_path, "adam_4e-2") == []
    assert set(report.COLORS) == {"published", *run.RECIPES["challengers"]}
    assert report.rungs(tmp_path, "published") == [(1600.0, 1.5)]
