"""The study of fine-tuning: its tasks, its bag of words, and one run on small data."""

import csv
import json

import numpy as np
import pytest

from data_utils.synthetic import synthetic_reviews
from experiments.finetuning import run as study
from experiments.finetuning.baseline import bag_of_words
from experiments.finetuning.table import write_table
from experiments.finetuning.variants import EMOTIONS, semeval, sst, variants_of
from model.errors import InputError
from model.text import text_profile
from model.weights import save_model
from tests.transfer.finetuning.tasks import several


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
    assert [len(part.texts) for part in sst(data / "sst")] == [40, 16, 20]
    train, val, test = semeval(data / "semeval")
    assert [len(part.texts) for part in (train, val, test)] == [72, 8, 24]
    assert train.classes == EMOTIONS
    assert not set(train.texts) & set(val.texts)


def test_the_bag_of_words_finds_a_word_that_says_it(data, monkeypatch):
    monkeypatch.setattr("experiments.finetuning.baseline.TFIDF_C_GRID", (0.1, 64.0))
    scores = bag_of_words(*semeval(data / "semeval"))
    assert scores["per_class"]["joy"]["f1"] == 1.0
    assert scores["per_class"]["trust"]["f1"] < 1.0


def test_each_way_asked_for_is_tried(data, small_model, tmp_path, monkeypatch, capsys):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    monkeypatch.setattr(study, "HERE", tmp_path)
    monkeypatch.setattr("experiments.finetuning.baseline.TFIDF_C_GRID", (1.0,))
    argv = ["run", "--model", str(tmp_path / "model"), "--name", "mine", "--data", str(data)]
    argv += ["--work", str(tmp_path / "work"), "--epochs", "1", "--tasks", "semeval"]
    monkeypatch.setattr("sys.argv", [*argv, "--variants", "frozen", "untrained"])
    for _ in range(2):  # the second time everything is there
        assert study.main() == 0
    for variant in ("frozen", "untrained"):
        result = json.loads((tmp_path / f"results/mine/semeval_{variant}.json").read_text())
        assert result["examples"] == {"train": 72, "val": 8, "test": 24}
        each = [row["f1"] for row in result["test"]["per_class"].values()]
        assert min(each) <= result["test"]["f1_basic_emotions"] <= max(each)
    untrained = json.loads((tmp_path / "results/mine/semeval_untrained.json").read_text())
    assert untrained["model"]["provenance"] == {"untrained": True}
    assert "semeval  frozen " in capsys.readouterr().out
    the_table_says_it(tmp_path / "results/mine")


def the_table_says_it(folder):
    """Every way that was tried has its row, in both tables; what was published stands below."""
    text = (folder / "table.md").read_text()
    for way in ("bag_of_words", "frozen", "untrained"):
        test = json.loads((folder / f"semeval_{way}.json").read_text())["test"]
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| `{way}`")]
        assert [len(row) for row in rows] == [8, 10]
        assert rows[0][1].startswith(f"{100 * test['f1_micro']:.1f} (")
        assert rows[1][5] == f"{100 * test['per_class']['joy']['f1']:.1f}"
        assert float(rows[1][9][:-2]) == pytest.approx(100 * test["f1_basic_emotions"], abs=0.06)
    assert text.count("| published: ") == 3
    assert "27.1 | 61.0 |" in text  # the mean that the paper gives for its eight
    assert "16.8 | 39.4 |" in text
    assert (folder / "table.png").stat().st_size > 0
    with pytest.raises(InputError, match="no results of sst or semeval"):
        write_table(folder.parent)


def test_only_what_is_compared_differs():
    known = variants_of(3)
    assert {v.config.epochs for v in known.values()} == {3}
    assert [name for name, v in known.items() if not v.pretrained] == ["untrained"]


def test_texts_can_be_limited():
    part = several(30)
    assert len(study.limited(part, 7).texts) == 7
    assert study.limited(part, None) is part
