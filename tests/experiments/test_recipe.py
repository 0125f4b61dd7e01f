"""The recipe study: its list of runs, one of them made, and what is told of it."""

import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from configs.options import RunOptions
from data_utils.corpus import open_corpus
from data_utils.preparation.checking import check_corpus
from experiments.recipe import corpora, report, run, speed
from experiments.recipe.run import read_recipes, train
from experiments.training_runs import Recipe
from model.errors import InputError
from model.files.storage import read_json, write_json
from model.text.split import shard_bounds
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"
TINY = {"model.hidden_size": 8, "data.lanes": 4, "data.window": 16, "optim.lr": 1e-3}


@pytest.fixture(autouse=True)
def _results(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(report, "SPEED", tmp_path / "speed.json")


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
    assert result["characters_read"] == result["rows"][-1]["characters"] == 64 * 8
    assert result["fingerprint"] == open_corpus(CORPUS).fingerprint
    assert result["valid_bits_per_character"] == result["rows"][-1]["valid_bits_per_character"]
    assert f"{result['valid_bits_per_character']}" in line
    report.main()
    told = capsys.readouterr().out
    assert "| `adam_2e-3` | hidden_size 8, lanes 4, window 16, lr 0.001 | " in told
    assert f" | {result['valid_bits_per_character']:.4f} |  |  |" in told
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_a_run_that_fails_is_kept_with_its_last_line(tmp_path, capsys):
    keys = {**TINY, "optim.name": "muon", "optim.warmup": 2.0}
    train(Recipe("adam_2e-3", 64 * 8, keys), CORPUS, tmp_path / "run")
    result = read_json(run.RESULTS / "adam_2e-3.json")
    assert result["valid_bits_per_character"] is None
    assert "optim.warmup is 2.0" in result["failure"][0]
    report.main()
    assert "| failed: optim.warmup is 2.0" in capsys.readouterr().out


def test_a_variant_has_the_reviews_it_should_and_is_judged_by_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "BUDGET", 2000)
    monkeypatch.setattr(corpora, "LANES", 3)
    given = shutil.copytree(CORPUS, tmp_path / "given")
    monkeypatch.setattr("sys.argv", ["corpora", "--corpus", str(given)])
    corpora.main()
    whole = open_corpus(given)
    taken = Counter(reviews(whole)[: reviews_within(whole, 2000)])
    sorted_ones = open_corpus(tmp_path / "given_short_first")
    assert Counter(reviews(sorted_ones)) == taken
    split = sorted_ones.splits["train"]
    for begin, end in pairwise(shard_bounds(split, 3)):  # what each of three lanes reads
        starts = [offset for offset in split.offsets if begin <= offset <= end]
        lengths = np.diff(starts)
        assert len(lengths) > 1
        assert (np.diff(lengths) >= 0).all()
    quarter = open_corpus(tmp_path / "given_quarter")
    assert reviews(quarter) == reviews(whole)[: reviews_within(whole, 500)]
    assert quarter.splits["valid"].tokens.tobytes() == whole.splits["valid"].tokens.tobytes()
    check_corpus(tmp_path / "given_quarter")
    with pytest.raises(InputError, match="given_quarter: exists"):
        corpora.main()


def reviews(corpus):
    """Return the reviews of the train split."""
    train = corpus.splits["train"]
    return [train.tokens[a:b].tobytes() for a, b in pairwise(train.offsets)]


def reviews_within(corpus, symbols):
    """Return how many reviews hold the first symbols, counted one by one."""
    total = count = 0
    for review in reviews(corpus):
        if total >= symbols:
            break
        total, count = total + len(review), count + 1
    return count


def test_speeds_are_compared_turn_by_turn(tmp_path, monkeypatch, capsys):
    def measured(recipe, corpus, folder, threads):
        assert recipe.characters == 1000
        assert recipe.keys["log.every_steps"] == 1
        fast = {"adam_8e-2": 2.0, "bf16": 0.5}.get(recipe.name, 1.0)
        noise = 1 + len(asked) // len(speed.NAMES)  # all of a turn alike
        asked.append(recipe.name)
        rows = [{"characters_per_second": 1.0}] * speed.WARM_UP
        rows += [{"characters_per_second": fast * noise * step} for step in (90, 100, 900)]
        return {"rows": rows, "failure": []}

    asked = []
    monkeypatch.setattr(speed, "measure", measured)
    monkeypatch.setattr(speed, "RESULT", tmp_path / "speed.json")
    monkeypatch.setattr("sys.argv", ["speed", "--characters", "1000", "--rounds", "2"])
    speed.main()
    result = read_json(tmp_path / "speed.json")
    assert [turn["muon_1e-2"] for turn in result["turns"]] == [100, 200]
    assert result["ratios"]["adam_8e-2"] == {"median": 2, "least": 2, "most": 2}
    assert result["ratios"]["bf16"]["median"] == 0.5
    assert "adam_8e-2        2.000  2.000 to 2.000" in capsys.readouterr().out


def test_the_speed_of_a_run_that_fails_is_refused(monkeypatch):
    monkeypatch.setattr(speed, "measure", lambda *_, **__: {"failure": ["no memory"], "rows": []})
    with pytest.raises(InputError, match="window_64 failed: no memory"):
        speed.speed_of(read_recipes()["window_64"], Path("data/reviews"), 200_000)


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


def test_a_run_may_have_a_corpus_and_a_seed_of_its_own(tmp_path):
    recipes = read_recipes()
    arguments = recipes["quarter"].arguments(tmp_path / "reviews", tmp_path)
    assert str(tmp_path / "reviews_quarter") in arguments
    assert recipes["muon_1e-2_seed_1"].keys["seed"] == 1


def test_an_unknown_name_is_refused(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run", "nonsense"])
    with pytest.raises(InputError, match=r"not in runs.toml: nonsense"):
        run.main()
