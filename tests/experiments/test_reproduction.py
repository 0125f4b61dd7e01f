"""The published transfer table: its folds, its readers, its measures, and a run on small data."""

import gzip
import json

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score

from data_utils.published_sets.registry import EMOTIONS
from data_utils.synthetic import synthetic_reviews
from experiments.reproduction import emotions
from experiments.reproduction import run as reproduction
from experiments.reproduction.emotions import scores_of
from experiments.reproduction.table import write_table
from model.errors import InputError
from model.files.weights import save_model
from model.text.profiles import text_profile


def jsonl(count, seed):
    return "\n".join(json.dumps(r._asdict()) for r in synthetic_reviews(count, seed)) + "\n"


def tweets(count):
    """Reviews for tweets: joy where they are positive, anger where not, love never."""
    lines = [",".join(("ID", "Tweet", *EMOTIONS))]
    for number, review in enumerate(synthetic_reviews(count, seed=count)):
        flags = dict.fromkeys(EMOTIONS, number % 3 == 0)
        flags |= {"joy": review.label == 1, "anger": review.label == 0, "love": number == 0}
        cells = ",".join(str(int(flag)) for flag in flags.values())
        lines.append(f'{number},"{review.text}",{cells}')
    return "\n".join(lines) + "\n"


@pytest.fixture
def data(tmp_path):
    """Small sets in the places and formats of the real ones."""
    for name in ("sst", "imdb", "mr", "semeval"):
        (tmp_path / name).mkdir()
    for name, count in (("train", 200), ("val", 60)):
        (tmp_path / f"semeval/{name}.csv").write_text(tweets(count))
    for name, count in (("train", 60), ("val", 20), ("test", 30)):
        rows = [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=count)]
        (tmp_path / f"sst/{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")
    for name in ("train", "test"):
        with gzip.open(tmp_path / f"imdb/imdb_{name}.jsonl.gz", "wt") as file:
            file.write(jsonl(80, seed=len(name)))
    for label, name in ((0, "neg"), (1, "pos")):
        lines = [r.text for r in synthetic_reviews(150, seed=7) if r.label == label]
        path = tmp_path / f"mr/rt-polarity.{name}"
        path.write_text("\n".join(lines) + "\nd\xe9j\xe0 vu\n", encoding="cp1252")
    return tmp_path


def test_the_measures_of_emotions_are_scikit_learns():
    rng = np.random.default_rng(0)
    labels, said = (rng.integers(0, 2, (40, 11)) * rng.integers(0, 2, (40, 1)) for _ in range(2))
    labels[:, 3] = said[:, 3] = 0
    found = scores_of(labels, said)
    eight = [EMOTIONS.index(name) for name in emotions.PLUTCHIK]
    f1 = f1_score(labels, said, average=None, zero_division=0)
    expected = {
        "jaccard": jaccard_score(labels, said, average="samples", zero_division=1),
        "micro_f1": f1_score(labels, said, average="micro"),
        "macro_f1": f1.mean(),
        "plutchik_f1": f1[eight].mean(),
    }
    for name, value in expected.items():
        assert found[name]["value"] == pytest.approx(value)
        low, high = found[name]["interval"]
        assert low < value < high


def test_resampling_gives_the_spread_of_a_mean(monkeypatch):
    """Of one emotion alike in all tweets, micro F1 is a known function of a binomial share."""
    labels = np.zeros((400, 11), dtype=np.int64)
    labels[:100, 4] = 1
    said = np.zeros_like(labels)
    said[:, 4] = 1
    draws = np.random.default_rng(9).binomial(400, 0.25, 200_000) / 400
    expected = np.percentile(2 * draws / (1 + draws), [2.5, 97.5])
    np.testing.assert_allclose(scores_of(labels, said)["micro_f1"]["interval"], expected, atol=0.01)


def test_fewer_than_no_seeds_of_the_untrained_baseline_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["run", "--data", str(tmp_path), "--untrained", "-1"])
    with pytest.raises(InputError, match="--untrained -1: it must be 0 or above"):
        reproduction.main()


def test_without_the_untrained_baseline_its_place_is_empty(
    data, small_model, tmp_path, monkeypatch, capsys
):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    monkeypatch.setattr(reproduction, "HERE", tmp_path)
    argv = ["run", "--model", str(tmp_path / "model"), "--data", str(data), "--untrained", "0"]
    argv += ["--tasks", "sst", "semeval", "--work", str(tmp_path / "features")]
    monkeypatch.setattr("sys.argv", argv)
    reproduction.main()
    assert "untrained 0." not in capsys.readouterr().out
    table = (tmp_path / "results/model/table.md").read_text()
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| S")]
    assert [row[5] for row in rows] == ["-"] * 3  # SST has two rows, SemEval one


def test_a_model_is_measured_on_all_four(data, small_model, tmp_path, monkeypatch, capsys):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {"characters": 4321})
    monkeypatch.setattr(reproduction, "HERE", tmp_path)
    argv = ["run", "--model", str(tmp_path / "model"), "--name", "mine", "--data", str(data)]
    argv += ["--untrained", "2"]
    monkeypatch.setattr("sys.argv", [*argv, "--work", str(tmp_path / "features")])
    reproduction.main()
    folder = tmp_path / "results/mine"
    for name, tested in (("sst", 30), ("imdb", 80), ("mr", 152)):
        result = json.loads((folder / f"{name}.json").read_text())
        assert result["tested"] == tested
        for row in ("all_units", "one_unit", "tfidf", "untrained", "majority"):
            low, high = result[row]["test_interval"]
            assert 0 <= low <= result[row]["test_accuracy"] <= high <= 1
        assert result["tfidf"]["test_accuracy"] > 0.8  # the grammar's words give it away
        assert len(result["all_units"]["by_fold"]) == result["folds"] == len(result["neurons"])
        assert len(result["untrained"]["accuracies"]) == 2
        assert (folder / f"{name}_neuron.png").exists()
    f1 = json.loads((folder / "semeval.json").read_text())
    assert f1["tfidf"]["micro_f1"]["value"] > f1["untrained"]["micro_f1"]["value"]
    assert "sst      all_units" in capsys.readouterr().out
    the_table_says_it(folder)


def the_table_says_it(folder):
    table = (folder / "table.md").read_text()
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 7  # the head; three tasks with two rows, one with one
    assert "12 units" in table
    assert "4,321 characters read in training" in table
    sst = json.loads((folder / "sst.json").read_text())
    assert table.count("`, revision ") == 4  # how each task's file was made
    assert lines[1].split(" | ")[5] == f"{100 * sst['untrained']['test_accuracy']:.1f}" + (
        " ({:.1f} to {:.1f})".format(*(100 * end for end in sst["untrained"]["test_interval"]))
    )
    assert lines[2].split(" | ")[5] == "-"  # of one unit it is not measured
    assert f"{100 * sst['one_unit']['test_accuracy']:.1f} (" in lines[2]
    assert "91.8 (4,096, radford)" in lines[1]
    assert "92.8 (4,096, puri)" in table
    before = (folder / "table.png").read_bytes()
    (folder / "imdb.json").unlink()
    assert len(write_table(folder).splitlines()) == len(table.splitlines()) - 3
    assert (folder / "table.png").read_bytes() != before
    with pytest.raises(InputError, match="no results"):
        write_table(folder.parent)
