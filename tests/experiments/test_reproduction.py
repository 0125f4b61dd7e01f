"""The published transfer table: its folds, its readers, and one run on small data."""

import gzip
import json

import numpy as np
import pytest

from data_utils.synthetic import synthetic_reviews
from experiments.reproduction import run as reproduction
from experiments.reproduction.tasks import FOLDS, cross_validation, imdb, mr, sst
from model.errors import InputError
from model.text import text_profile
from model.weights import save_model


def jsonl(count, seed):
    return "\n".join(json.dumps(r._asdict()) for r in synthetic_reviews(count, seed)) + "\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Small sets in the places and formats of the real ones."""
    for name in ("sst", "imdb", "mr"):
        (tmp_path / name).mkdir()
    for name, count in (("train", 60), ("val", 20), ("test", 30)):
        rows = [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=count)]
        (tmp_path / f"sst/{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")
    for name in ("train", "test"):
        with gzip.open(tmp_path / f"imdb/imdb_{name}.jsonl.gz", "wt") as file:
            file.write(jsonl(80, seed=len(name)))
    monkeypatch.setattr("experiments.reproduction.tasks.IMDB_VAL", 16)
    for label, name in ((0, "neg"), (1, "pos")):
        lines = [r.text for r in synthetic_reviews(150, seed=7) if r.label == label]
        path = tmp_path / f"mr/rt-polarity.{name}"
        path.write_text("\n".join(lines) + "\nd\xe9j\xe0 vu\n", encoding="cp1252")
    return tmp_path


def test_every_example_is_tested_in_one_fold_and_fitted_in_the_rest():
    folds = list(cross_validation(103))
    assert len(folds) == FOLDS
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(103))
    for fold in folds:
        parts = np.concatenate([fold.train, fold.val, fold.test])
        assert sorted(parts) == list(range(103))
        assert abs(len(fold.val) - len(fold.test)) <= 1


def test_the_sets_keep_their_own_splits(data):
    (fold,) = sst(data / "sst").folds
    assert [len(part) for part in (fold.train, fold.val, fold.test)] == [60, 20, 30]
    (fold,) = imdb(data / "imdb").folds
    assert fold.test.tolist() == list(range(80, 160))
    assert sorted([*fold.train, *fold.val]) == list(range(80))
    assert len(fold.val) == 16


def test_movie_reviews_are_read_in_their_old_encoding(data):
    task = mr(data / "mr")
    assert task.texts.texts.count("d\xe9j\xe0 vu") == 2
    assert task.texts.labels.tolist() == sorted(task.texts.labels)
    with pytest.raises(InputError, match="no such file"):
        mr(data)


def test_a_model_is_measured_on_all_three(data, small_model, tmp_path, monkeypatch, capsys):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    monkeypatch.setattr(reproduction, "HERE", tmp_path)
    argv = ["run", "--model", str(tmp_path / "model"), "--name", "mine", "--data", str(data)]
    monkeypatch.setattr("sys.argv", [*argv, "--work", str(tmp_path / "features")])
    reproduction.main()
    for name, tested in (("sst", 30), ("imdb", 80), ("mr", 152)):
        result = json.loads((tmp_path / f"results/mine/{name}.json").read_text())
        assert result["tested"] == tested
        for row in ("all_units", "one_unit", "tfidf"):
            low, high = result[row]["test_interval"]
            assert 0 <= low <= result[row]["test_accuracy"] <= high <= 1
        assert result["tfidf"]["test_accuracy"] > 0.8  # the grammar's words give it away
        assert (tmp_path / f"results/mine/{name}_neuron.png").exists()
    assert "sst   all_units" in capsys.readouterr().out
