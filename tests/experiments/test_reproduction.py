"""The published transfer table: its folds, its readers, its measures, and a run on small data."""

import gzip
import json

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score

from data_utils.synthetic import synthetic_reviews
from experiments.intervals import unpacked_answers
from experiments.models.overlap import HeldOut
from experiments.published_sets import EMOTIONS, SETS
from experiments.reproduction import contamination, emotions, one_unit, words
from experiments.reproduction import run as reproduction
from experiments.reproduction.emotions import scores_of
from experiments.reproduction.table import measured, write_table
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from transfer.neuron.ranking import rank_units
from transfer.regression import Examples, Regression


def jsonl(count, seed):
    return "\n".join(json.dumps(r._asdict()) for r in synthetic_reviews(count, seed)) + "\n"


def tweets(count):
    """Reviews in place of tweets: joy if positive, anger if not, love only in the first."""
    lines = [",".join(("ID", "Tweet", *EMOTIONS))]
    for row, review in enumerate(synthetic_reviews(count, seed=count)):
        flags = dict.fromkeys(EMOTIONS, row % 3 == 0)
        flags |= {"joy": review.label == 1, "anger": review.label == 0, "love": row == 0}
        cells = ",".join(str(int(flag)) for flag in flags.values())
        lines.append(f'{row},"{review.text}",{cells}')
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
    scores = scores_of(labels, said)
    eight = [EMOTIONS.index(name) for name in emotions.PLUTCHIK]
    f1 = f1_score(labels, said, average=None, zero_division=0)
    expected = {
        "jaccard": jaccard_score(labels, said, average="samples", zero_division=1),
        "micro_f1": f1_score(labels, said, average="micro"),
        "macro_f1": f1.mean(),
        "plutchik_f1": f1[eight].mean(),
    }
    for name, value in expected.items():
        assert scores[name]["value"] == pytest.approx(value)
        low, high = scores[name]["interval"]
        assert low < value < high


@pytest.fixture
def reproduce(small_model, tmp_path):
    """Return a function that measures a small model, and its folder of results."""

    def call(data, **options):
        save_model(tmp_path / "model", small_model, text_profile("openai"), {"characters": 4321})
        places = {"work": tmp_path / "features", "results": tmp_path / "results"}
        model = str(tmp_path / "model")
        reproduction.reproduce(reproduction.Options(model=model, data=data, **places, **options))
        return tmp_path / "results" / options.get("name", "model")

    return call


def test_a_model_is_measured_on_all_four(data, reproduce, capsys):
    folder = reproduce(data, untrained=2, name="mine")
    for name, tested in (("sst", 30), ("imdb", 80), ("mr", 152)):
        result = json.loads((folder / f"{name}.json").read_text())
        assert result["tested"] == tested
        baseline = json.loads((folder.parent / f"tfidf/{name}.json").read_text())
        assert baseline["examples"] == result["examples"]
        result["tfidf"] = baseline["tfidf"]
        for row in ("all_units", "one_unit", "tfidf", "untrained", "majority"):
            low, high = result[row]["test_interval"]
            assert 0 <= low <= result[row]["test_accuracy"] <= high <= 1
        assert result["tfidf"]["test_accuracy"] > 0.8  # the grammar's words give it away
        assert len(result["all_units"]["by_fold"]) == result["folds"] == len(result["neurons"])
        assert len(result["untrained"]["accuracies"]) == 2
        assert (folder / f"{name}_neuron.png").exists()
    f1 = json.loads((folder / "semeval.json").read_text())
    baseline = json.loads((folder.parent / "tfidf/semeval.json").read_text())
    assert baseline["tfidf"]["micro_f1"]["value"] > f1["untrained"]["micro_f1"]["value"]
    assert "sst      all_units" in capsys.readouterr().out
    the_table_says_it(folder)


def test_a_unit_of_sst_is_tested_where_no_label_chose_it(data):
    held_out = HeldOut(["one two three four five 1"])
    texts = one_unit.tested_texts("mr", data, held_out)
    assert len(texts.texts) == 152
    held_out = HeldOut(SETS["mr"].read(data).texts.texts[:10])
    assert len(one_unit.tested_texts("mr", data, held_out).texts) < 152
    features = np.array([[1.0, 5.0], [2.0, 1.0], [3.0, 4.0], [4.0, 2.0]])
    train = Examples(features, np.array([1, 1, 0, 0]))
    weights = Regression(1.0, np.array([0.1, 3.0]), 0.0, 0.5, True)
    rules = one_unit.chosen_units(rank_units(train, weights))
    assert (rules["best_on_train"]["unit"], rules["largest_weight"]["unit"]) == (0, 1)
    row = one_unit.describe_unit(rules["best_on_train"], Examples(features, train.labels[::-1]))
    assert (row["test_accuracy"], row["area"]) == (0.0, 0.0)


def test_texts_are_shared_if_a_review_has_a_run_of_their_words():
    run = [f"w{n}" for n in range(12)]
    texts = {"cr": [" ".join(run), " ".join(run[:8]), " ".join(run[:7])], "mpqa": ["other words"]}
    counts = contamination.shared_runs(texts, ["x " + " ".join(run[:9]), "nothing"])
    assert (counts["cr"]["8"]["shared"], counts["cr"]["8"]["long_enough"]) == (2, 2)
    assert counts["cr"]["12"]["shared"] == counts["mpqa"]["8"]["shared"] == 0
    assert unpacked_answers(counts["cr"]["8"]["rows"], 3).tolist() == [True, True, False]


def test_the_bag_of_words_is_measured_once_for_all_models_of_the_same_examples(
    data, reproduce, monkeypatch, capsys
):
    first = reproduce(data, untrained=0, tasks=("sst",), name="first")
    assert "untrained 0." not in capsys.readouterr().out
    monkeypatch.setattr(words, "by_kind", lambda task: pytest.fail("measured again"))
    second = reproduce(data, untrained=0, tasks=("sst",), name="second")
    path = first.parent / "tfidf/sst.json"
    baseline = read_json(path)
    cells = [measured(folder)["sst"]["tfidf"] for folder in (first, second)]
    assert cells[0] == cells[1] == baseline["tfidf"]
    write_json(path, {**baseline, "examples": {**baseline["examples"], "test": 31}}, "a result")
    old = read_json(first / "sst.json")
    old = {**old, "tfidf": {"test_accuracy": 0.1}}  # as it once was kept
    write_json(first / "sst.json", old, "a result")
    assert "tfidf" not in measured(first)["sst"]
    rows = [line.split(" | ") for line in write_table(first).splitlines() if "| SST" in line]
    assert rows[0][4] == "-"
    assert [row[7] for row in rows] == ["-"] * 2  # of the untrained baseline


def the_table_says_it(folder):
    table = write_table(folder)
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 7  # the head; three tasks with two rows, one with one
    assert "12 units" in table
    assert "4,321 characters in training" in table
    sst = json.loads((folder / "sst.json").read_text())
    assert lines[1].split(" | ")[7].startswith(f"{100 * sst['untrained']['test_accuracy']:.1f} (")
    assert lines[2].split(" | ")[7] == "-"  # of one unit it is not measured
    assert f"{100 * sst['one_unit']['test_accuracy']:.1f} (" in lines[2]
    assert "91.8 (4,096, radford)" in lines[1]
    (folder / "imdb.json").unlink()
    assert len(write_table(folder).splitlines()) == len(table.splitlines()) - 4
    with pytest.raises(InputError, match="no results"):
        write_table(folder.parent)
