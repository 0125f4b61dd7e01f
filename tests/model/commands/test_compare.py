"""compare: one table for several models on the same texts."""

import json
import shutil

import numpy as np
import pytest

from data_utils.labelled import read_labelled_sets
from data_utils.synthetic import synthetic_reviews
from model.classifiers.comparison import ComparedTexts, best_unit, reading_warnings
from model.classifiers.head_files import FOLDER, save_head
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.commands.command_line import dispatch
from model.errors import InputError
from model.files.weights import load_model, model_digest, save_model
from model.text.profiles import text_profile
from tests.support.heads import regression

REVIEWS = list(synthetic_reviews(60, seed=3))


@pytest.fixture
def models(small_model, tmp_path):
    """The folders of a model with a classifier and of one without."""
    profile = text_profile("openai")
    for name in ("one", "bare"):
        save_model(tmp_path / name, small_model, profile, {})
    give_classifier(tmp_path / "one")
    return [str(tmp_path / "one"), str(tmp_path / "bare")]


def give_classifier(folder, sign=1.0, origin=None):
    weights = np.zeros(12, np.float32)
    weights[4] = sign
    digest = model_digest(load_model(folder).model)
    classifier = regression(weights, 0.0, ("no", "yes"), 4, int(sign), digest)
    save_head(folder / FOLDER, classifier, origin)


@pytest.fixture
def table(tmp_path):
    """A file of labelled texts, one of them blank."""
    lines = ["label,text", *(f'{r.label},"{r.text}"' for r in REVIEWS), "0,"]
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def compare(*words):
    dispatch(["compare", *map(str, words)])


def test_the_numbers_are_those_of_the_single_commands(models, table, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(models[1], other)
    give_classifier(other, sign=-1.0)
    compare(*models, other, "--data", table, "--output", tmp_path / "c.json")
    result = json.loads((tmp_path / "c.json").read_text())
    texts, labels = [r.text for r in REVIEWS], np.array([int(r.label) for r in REVIEWS])
    right = SentimentClassifier(models[0]).predict(texts) == np.array(["no", "yes"])[labels]
    one, bare, last = result["models"]
    assert result["texts"] == 60
    assert one["accuracy"] == right.mean()
    assert bare["accuracy"] is None
    assert last["accuracy"] == 1 - one["accuracy"]
    assert one["best_unit"] == bare["best_unit"]
    assert result["agreement"] == [[1, None, 0], [None, None, None], [0, None, 1]]
    options = ["--reset", "review", "--output", str(tmp_path / "e.json")]
    dispatch(["evaluate", "--model", models[1], "--data", str(table), *options])
    scored = json.loads((tmp_path / "e.json").read_text())
    for each in result["models"]:
        assert each["characters"] == scored["characters"]
        assert each["bits_per_character"] == pytest.approx(scored["bits_per_character"], abs=1e-6)
    heads, *rows = capsys.readouterr().out.splitlines()[:4]
    assert heads.split()[:4] == ["model", "bits", "all", "units"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert f"{one['accuracy']:.3f}" in rows[0]


def test_the_best_unit_is_scored_on_texts_that_did_not_choose_it():
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    noise = random.normal(size=(400, 300)).astype(np.float32)
    assert best_unit(noise, labels, list(map(str, range(300))))["accuracy"] < 0.56
    noise[:, 7] -= 3 * labels
    best = best_unit(noise, labels, list(map(str, range(300))))
    assert (best["unit"], best["polarity"]) == ("7", -1)
    assert best["accuracy"] > 0.9
    assert best_unit(noise[:6], labels[:6], list(map(str, range(300)))) is None
    assert best_unit(np.zeros((40, 2), np.float32), labels[:40], ["0", "1"]) is None


def test_texts_without_labels_have_bits_and_agreement(models, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("so good\nvery bad\n")
    compare(models[0], models[0], "--data", tmp_path / "t.txt")
    printed = capsys.readouterr().out
    assert "units" not in printed
    assert "1.000" in printed


def test_labels_that_are_no_two_classes(models, tmp_path, caplog):
    (tmp_path / "stars.csv").write_text("overall,text\n1,bad\n3,so so\n5,very good\n")
    with caplog.at_level("INFO"):
        compare(models[0], "--data", tmp_path / "stars.csv")
    assert "accuracy needs two classes" in caplog.text
    with pytest.raises(InputError, match="3 classes; compare needs two"):
        compare(models[0], "--data", tmp_path / "stars.csv", "--label-key", "overall")
    (tmp_path / "hole.csv").write_text("label,text\n1,bad\n,so so\n")
    with pytest.raises(InputError, match="no label under 'label'"):
        compare(models[0], "--data", tmp_path / "hole.csv")


def test_it_warns_of_texts_that_a_model_has_read(models, table, tmp_path, caplog):
    (labelled,) = read_labelled_sets([table])
    data = {"train": {"examples": 61, "sha256": labelled.digest}}
    give_classifier(tmp_path / "one", origin={"data": data})
    compare(*models, "--data", table)
    warnings = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1
    assert warnings[0].endswith("its classifier was fitted on exactly these texts and labels")


def test_it_warns_of_a_name_that_names_a_source(tmp_path):
    shipped = load_model("default")
    for name, sources in (("imdb_test.csv", ["imdb_unlabelled", "imdb_train"]), ("mine.csv", [])):
        warnings = reading_warnings("default", shipped, ComparedTexts(["x"]), tmp_path / name)
        assert bool(warnings) == bool(sources)
        assert all(source in warnings[0] for source in sources)
