"""The study of fine-tuning: its tasks, its bag of words, and one run on small data."""

import csv
import json
from dataclasses import asdict

import numpy as np
import pytest

from configs.command import parse
from data_utils.published_sets.registry import EMOTIONS
from data_utils.synthetic import synthetic_reviews
from experiments.finetuning.baseline import baselines
from experiments.finetuning.run import Options, study
from experiments.finetuning.table import write_table
from experiments.finetuning.variants import TASKS, variants_of
from experiments.reproduction.emotions import PLUTCHIK, plutchik_f1
from model.errors import InputError
from model.files.storage import read_json
from model.files.weights import save_model
from model.text.profiles import text_profile
from transfer.finetuning.config import FinetuningConfig


def write_tweets(path, count, seed):
    """Tweets in SemEval's form: joy is said by a word, the other emotions are drawn."""
    generator = np.random.default_rng(seed)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "ID", "Tweet", *EMOTIONS])
        for row in range(count):
            labels = generator.integers(0, 2, size=len(EMOTIONS))
            word = "happy" if labels[EMOTIONS.index("joy")] else "so"
            writer.writerow([row, f"id{row}", f"{word} it is {path.stem}{row}", *labels])


@pytest.fixture
def data(tmp_path):
    for name in ("sst", "semeval"):
        (tmp_path / name).mkdir()
    for name, count in (("train", 40), ("val", 16), ("test", 20)):
        rows = [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=count)]
        (tmp_path / f"sst/{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")
    for name, count in (("train", 80), ("val", 24)):
        write_tweets(tmp_path / f"semeval/{name}.csv", count, seed=count)
    return tmp_path


def test_the_sets_are_those_of_the_protocol(data):
    assert [len(part.texts) for part in TASKS["sst"].read(data).sets] == [40, 16, 20]
    train, val, test = TASKS["semeval"].read(data).sets
    assert [len(part.texts) for part in (train, val, test)] == [72, 8, 24]
    assert train.classes == EMOTIONS
    assert not set(train.texts) & set(val.texts)


def test_the_baselines_are_what_they_say(data, monkeypatch):
    monkeypatch.setattr("experiments.reproduction.emotions.TFIDF_C_GRID", (64.0,))
    sets = TASKS["semeval"].read(data).sets
    scores = baselines(sets)
    assert scores["bag_of_words"]["per_class"]["joy"]["f1"] == 1.0  # a word says it
    assert scores["bag_of_words"]["per_class"]["trust"]["f1"] < 1.0
    assert scores["constant"]["recall_macro"] == 1.0
    assert scores["constant"]["f1_plutchik"] == plutchik_f1(
        sets[2].labels, np.ones_like(sets[2].labels)
    )["value"]  # fmt: skip
    train, _, test = sets = TASKS["sst"].read(data).sets
    scores = baselines(sets)
    commoner = np.bincount(train.labels).argmax()
    assert scores["constant"]["accuracy"] == np.mean(test.labels == commoner)
    assert scores["bag_of_words"]["accuracy"] > scores["constant"]["accuracy"]


@pytest.fixture
def tuned(data, small_model, tmp_path, monkeypatch):
    """Return a function that runs the study on small data and returns the folder of results."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {"characters": 4321})
    monkeypatch.setattr("experiments.reproduction.emotions.TFIDF_C_GRID", (1.0,))
    places = {"--model": "model", "--data": data, "--work": "work", "--results": "results"}
    words = [word for key, path in places.items() for word in (key, tmp_path / path)]
    words += ["--name", "mine", "--epochs", "1"]

    def call(*options):
        assert study(parse(Options, arguments=[*map(str, words), *map(str, options)])) == 0
        return tmp_path / "results/mine"

    return call


def test_each_way_asked_for_is_tried_with_each_seed(tuned, capsys):
    folder = tuned("--variants", "untrained", "--seeds", 2)
    for label in ("untrained", "untrained_1"):
        result = read_json(folder / f"semeval_{label}.json")
        assert result["examples"] == {"train": 72, "val": 8, "test": 24}
        test = result["test"]
        assert test["f1_plutchik"] == pytest.approx(
            np.mean([test["per_class"][name]["f1"] for name in PLUTCHIK])
        )
        low, high = test["f1_plutchik_interval"]
        assert low <= test["f1_plutchik"] <= high
    first, second = (read_json(folder / f"sst_untrained{n}.json") for n in ("", "_1"))
    assert first["model"]["provenance"] == {"untrained": True}
    assert first["model"]["digest"] != second["model"]["digest"]
    assert (first["config"]["seed"], second["config"]["seed"]) == (0, 1)
    assert "semeval  untrained_1 " in capsys.readouterr().out
    the_table_says_it(folder)


def the_table_says_it(folder):
    """Every way has its row in every table, over its seeds; what was published stands below."""
    text = write_table(folder)
    assert "validation set: 72 / 8 / 24 texts" in text
    for way in ("constant", "bag_of_words", "untrained"):
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| `{way}`")]
        assert [len(row) for row in rows] == [7, 9, 10]
        sst, semeval = (
            [read_json(path)["test"] for path in sorted(folder.glob(f"{task}_{way}*.json"))]
            for task in ("sst", "semeval")
        )
        assert len(sst) == len(semeval) == (2 if way == "untrained" else 1)
        assert rows[0][1].startswith(f"{100 * np.mean([t['accuracy'] for t in sst]):.1f} (")
        eight = [100 * test["f1_plutchik"] for test in semeval]
        assert rows[1][1].startswith(f"{np.mean(eight):.1f} (")
        if len(eight) == 2:
            assert rows[1][5] == f"2: {min(eight):.1f} to {max(eight):.1f}"
        assert rows[1][6] == f"{np.mean([test['mcc_macro'] for test in semeval]):.3f}"
        assert float(rows[2][9][:-2]) == pytest.approx(np.mean(eight), abs=0.06)
    assert "27.1 | 61.0 |" in text  # the means that the paper gives for its eight
    assert "16.8 | 39.4 |" in text
    assert "mLSTM, frozen, 4,096 units, 38 GB of reviews (radford) | 91.8 |" in text
    assert (folder / "table.png").stat().st_size > 0
    with pytest.raises(InputError, match="no results of sst or semeval"):
        write_table(folder.parent)


def test_what_is_measured_is_not_measured_again(tuned):
    options = ("--variants", "frozen", "--tasks", "sst")
    path = tuned(*options) / "sst_frozen.json"
    before = path.read_bytes()
    table = write_table(path.parent)
    assert "The model: 12 units" in table
    assert "4,321 characters read" in table
    tuned(*options)
    assert path.read_bytes() == before  # with the seconds that it took
    path.unlink()  # what is asked for anew: from what the folder of the run holds
    tuned(*options)
    again, first = read_json(path), json.loads(before)
    assert again["test"] == first["test"]
    assert again["history"] == first["history"]
    path.write_bytes(before.replace(b'"window": 512', b'"window": 256'))
    tuned(*options)  # another setting's result is no result
    assert read_json(path)["config"]["window"] == 512


def test_a_limit_is_filed_apart(tuned):
    folder = tuned("--variants", "frozen", "--tasks", "sst", "--limit", 12)
    assert not list(folder.glob("*"))
    small = read_json(folder.parent / "mine_limit_12/sst_frozen.json")
    assert small["examples"] == {"train": 12, "val": 12, "test": 12}


@pytest.mark.parametrize("option", ["--limit", "--seeds", "--epochs"])
def test_less_than_one_is_refused(tuned, option):
    with pytest.raises(InputError, match=f"{option} 0: it must be 1 or above"):
        tuned(option, 0)


def test_an_unknown_way_is_refused_before_any_work(tuned, capsys):
    with pytest.raises(SystemExit) as end:
        tuned("--variants", "frozne")
    assert end.value.code == 2
    assert "frozne" in capsys.readouterr().err


SHARED = {"hidden_layers": (256,), "heads_per_class": 4, "dropout": 0.3}


@pytest.mark.parametrize(
    ("way", "differs"),
    [
        ("frozen", {"freeze": True}),
        ("frozen_hidden", {"freeze": True, **SHARED}),
        ("learned", SHARED),
        ("learned_with_lm", {"lm_weight": 0.02, **SHARED}),
        ("untrained", {"encoder_factor": 1.0, **SHARED}),
    ],
)
def test_only_what_is_declared_differs(way, differs):
    variant = variants_of(3, 7)[way]
    plain = FinetuningConfig(epochs=3, seed=7)
    found = {k: v for k, v in asdict(variant.config).items() if v != getattr(plain, k)}
    assert found == differs
    assert variant.pretrained == (way != "untrained")
