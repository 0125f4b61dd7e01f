"""A transfer from end to end on a tiny model."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from data_utils.labelled import LabelledSet
from experiments.baselines import BASELINES, NaiveBayesRegression
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import load_areas, load_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order
from model.inference.tensors import model_digest
from model.inference.weights import LoadedModel, load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.support.folders import contents
from tests.support.runs import assert_refused
from tests.transfer.examples import make_set, with_questions
from transfer import experiment, plots
from transfer.baselines import TFIDF, bag_of_words, fit_baseline, majority_accuracy, tfidf_accuracy
from transfer.experiment import measure_baselines, run_transfer
from transfer.features import FeatureCache
from transfer.regression import Examples, fit_regression
from transfer.unit_auc import per_unit_auc


@pytest.fixture(scope="module")
def sets():
    return [make_set(150, 1), make_set(60, 2), make_set(80, 3)]


@pytest.fixture(scope="module")
def telling_model():
    """A model of which the regression on these reviews uses several units."""
    return emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=0))


@pytest.fixture(scope="module")
def loaded(telling_model):
    return LoadedModel(telling_model, text_profile("openai"), Path("model"))


@pytest.fixture(scope="module")
def transferred(loaded, sets, tmp_path_factory):
    """The results of a transfer and their folder; only to be read."""
    folder = tmp_path_factory.mktemp("transferred") / "out"
    return run_transfer(loaded, sets, folder), folder


def test_everything_a_reader_needs_is_written(transferred):
    results, folder = transferred
    assert results == json.loads((folder / "results.json").read_text())
    for split in ("train", "val", "test"):
        low, high = results[f"{split}_interval"]
        assert 0 <= low <= results[f"{split}_accuracy"] <= high <= 1
    assert results["examples"] == {"train": 150, "val": 60, "test": 80}
    assert set(results["baselines"]) == {"majority", "tfidf", "untrained"}
    assert results["neuron"]["polarity"] in (1, -1)
    for figure in ("weights.png", "neuron.png"):
        assert (folder / figure).read_bytes().startswith(b"\x89PNG")
    figures = json.loads((folder / "figures.json").read_text())
    assert sum(map(sum, list(figures["neuron_by_label"].values())[1:])) == 80


def test_the_classifier_repeats_the_reported_accuracy(transferred, telling_model, sets, loaded):
    results, folder = transferred
    assert results["nonzero"] > 0  # so that probabilities differ
    classifier = load_head(folder / "classifier", hidden_size=12)
    assert classifier.model_digest == model_digest(telling_model)
    assert classifier.neuron == results["neuron"]["index"]
    learned, _, tested = (
        features_in_order(telling_model, list(map(loaded.encode, part.texts))) for part in sets
    )
    probabilities = classifier.probabilities(tested)
    assert ((probabilities > 0.5) == sets[2].labels).mean() == results["test_accuracy"]
    chosen = classifier.choose(probabilities)
    assert classifier.threshold == results["threshold"]["value"]
    assert (chosen == sets[2].labels).mean() == results["threshold"]["test_accuracy"]
    areas, _ = load_areas(folder / "classifier", hidden_size=12)
    # Values that rounding makes equal may count half.
    np.testing.assert_allclose(areas, per_unit_auc(learned, sets[0].labels, 12), atol=0.005)


def test_a_classifier_is_replaced_whole_or_not_at_all(
    tmp_path, transferred, loaded, sets, monkeypatch
):
    shutil.copytree(transferred[1], tmp_path / "out")
    before = contents_of(tmp_path / "out/classifier")

    def is_full(*arguments):
        raise OSError("no room")

    monkeypatch.setattr("transfer.unit_auc.save_areas", is_full)  # after weights and description
    opposite = [replace(part, labels=1 - part.labels, classes=("a", "b")) for part in sets]
    with pytest.raises(OSError, match="no room"):
        run_transfer(loaded, opposite, tmp_path / "out")
    assert contents_of(tmp_path / "out/classifier") == before


def contents_of(folder):
    return {path.name: path.read_bytes() for path in contents(folder)}


def test_the_test_set_chooses_nothing(tmp_path, transferred, loaded, sets):
    right, folder = transferred
    praised = replace(sets[2], labels=np.ones_like(sets[2].labels))
    results = run_transfer(loaded, [*sets[:2], praised], tmp_path / "praised")
    assert right["test_accuracy"] != results["test_accuracy"]  # it is read
    for key in ("c", "nonzero", "val_accuracy"):
        assert right[key] == results[key]
    for key in ("index", "polarity", "weight", "val_accuracy"):
        assert right["neuron"][key] == results["neuron"][key]
    assert right["threshold"]["value"] == results["threshold"]["value"]
    weights = "classifier/classifier.safetensors"
    assert (folder / weights).read_bytes() == (tmp_path / "praised" / weights).read_bytes()


def test_pooled_states_are_transferred_and_classified(tmp_path, telling_model, sets, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_png", lambda figure, path: drawn.append(figure.axes[0]))
    save_model(tmp_path / "model", telling_model, text_profile("openai"), {})
    loaded = load_model(tmp_path / "model")
    pooling = ("mean", "last")
    results = run_transfer(loaded, sets, tmp_path / "out", pooling=pooling)
    assert results["nonzero"] > 0
    assert results["pooling"] == ["mean", "last"]
    unit, kind = results["neuron"]["index"], results["neuron"]["pooling"]
    assert 0 <= unit < 12
    assert drawn[0].texts[0].get_text() == f"unit {unit}, {kind}"
    over = "mean cell state of unit {} over" if kind == "mean" else "cell state of unit {} after"
    label = drawn[1].get_xlabel().removesuffix(", sign turned")
    assert label == f"{over.format(unit)} the text"
    classifier = SentimentClassifier.from_pretrained(tmp_path / "model", tmp_path / "out")
    labels = classifier.predict(sets[2].texts).astype(int)
    assert (labels == sets[2].labels).mean() == results["threshold"]["test_accuracy"]
    sequences = [loaded.encode(text) for text in sets[2].texts]
    kind = FeatureKind(pooling=results["neuron"]["pooling"])
    values = features_in_order(telling_model, sequences, kind=kind)[:, results["neuron"]["index"]]
    np.testing.assert_allclose(classifier.predict_all(sets[2].texts).neuron, values, rtol=1e-4)


def test_three_classes_from_fit_to_label(tmp_path, small_model, sets):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    loaded = load_model(tmp_path / "model")
    three = [with_questions(part, len(part.texts) // 2) for part in sets]
    results = run_transfer(loaded, three, tmp_path / "out")
    assert results["classes"] == ["0", "1", "question"]
    assert "threshold" not in results
    assert results["test_accuracy"] > results["baselines"]["majority"]["test_accuracy"] + 0.2
    figures = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert np.shape(figures["weights"]) == (12,)
    histogram = figures["neuron_by_label"]
    assert sum(histogram["label question"]) == 40
    classifier = SentimentClassifier.from_pretrained(tmp_path / "model", tmp_path / "out")
    labels = classifier.predict(three[2].texts)
    expected = np.array(classifier.classes)[three[2].labels]
    assert (labels == expected).mean() == results["test_accuracy"]
    assert classifier.predict_proba(["Does it fit 7?"]).argmax() == 2


def test_results_are_whole_before_pictures_are_drawn(tmp_path, loaded, sets, caplog, monkeypatch):
    def fails(figure, path):
        raise ValueError(f"{path.name} is too large")

    monkeypatch.setattr("transfer.plots.save_png", fails)
    results = run_transfer(loaded, sets, tmp_path / "out")
    assert results == json.loads((tmp_path / "out" / "results.json").read_text())
    load_head(tmp_path / "out" / "classifier", hidden_size=12)
    assert (tmp_path / "out" / "figures.json").is_file()
    warnings = [record.getMessage() for record in caplog.records]
    assert [text.split(" could")[0].rpartition("/")[2] for text in warnings] == [
        "weights.png",
        "neuron.png",
    ]


def test_sets_that_teach_nothing_are_refused_before_any_work(tmp_path, loaded, sets):
    train, val, test = sets
    empty = LabelledSet([" "] * 4, np.array([0, 1, 0, 1]), ("0", "1"))
    alike = val.subset(np.flatnonzero(val.labels == 1))
    for parts, message in (
        ([empty, val, test], "every text of the training set is empty"),
        ([train, alike, test], r"validation labels hold a single class.*--val"),
    ):
        with pytest.raises(InputError, match=message):
            run_transfer(loaded, parts, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_regression_without_weights_is_reported(tmp_path, telling_model, caplog):
    """The labels have nothing to do with the texts, which are alike."""
    alike = LabelledSet(["a day"] * 40, np.array([0, 1] * 20), ("0", "1"))
    results = run_transfer(
        LoadedModel(telling_model, text_profile("openai"), tmp_path), [alike] * 3, tmp_path / "out"
    )
    assert results["nonzero"] == 0
    assert "no unit separates the classes: every text will get the same answer" in caplog.text


def test_every_baseline_is_fitted_on_train_chosen_on_val_and_scored_on_test(
    tmp_path, telling_model, sets, monkeypatch, loaded
):
    def untrained(loaded, seed):  # louder, so that two of them differ on few texts
        return replace(loaded, model=emphatic(build_model(loaded.architecture, seed)))

    monkeypatch.setattr(experiment, "untrained_like", untrained)
    right = np.arange(len(sets[2].labels)) % 2 == 0
    baselines = measure_baselines(loaded, sets, FeatureCache(tmp_path), right, seed=3, untrained=2)
    assert baselines["majority"]["test_accuracy"] == majority_accuracy(sets[0], sets[2])
    words = tfidf_accuracy(*sets)
    assert baselines["tfidf"]["test_accuracy"] == words
    assert baselines["tfidf"]["lost"] == pytest.approx(words - right.mean())
    by_hand = []
    for seed in (3, 4):
        model = untrained(loaded, seed).model
        read = (features_in_order(model, list(map(loaded.encode, part.texts))) for part in sets)
        train, val, test = map(Examples, read, (part.labels for part in sets))
        by_hand.append(fit_regression(train, val).accuracy(test))
        assert fit_regression(train, val).accuracy(val) != by_hand[-1]
    assert baselines["untrained"]["accuracies"] == by_hand
    assert by_hand[0] != by_hand[1]


def test_c_of_a_bag_of_words_is_the_smallest_of_the_best_on_val(sets):
    train, val, _ = sets
    vectorizer = bag_of_words()
    learned = vectorizer.fit_transform(train.texts), train.labels
    swapped = replace(val, labels=1 - val.labels)  # so that the weakest fit is best
    for held_out in (swapped, val):
        grid = [2.0**exponent for exponent in range(-2, 9)]
        fits = [LogisticRegression(C=c, max_iter=1000).fit(*learned) for c in grid]
        features = vectorizer.transform(val.texts)
        scores = [fit.score(features, held_out.labels) for fit in fits]
        assert len(set(scores)) > 1
        assert grid[scores.index(max(scores))] == fit_baseline(TFIDF, train, held_out)[-1].C


PAIRS = LabelledSet(["good not bad", "bad not good"] * 20, np.array([1, 0] * 20), ("0", "1"))
DAYS = LabelledSet(["Good day.", "bad day!"] * 20, np.array([1, 0] * 20), ("0", "1"))
MARKED = LabelledSet(["(good)", '"BAD",'], np.array([1, 0]), ("0", "1"))
BLANK = LabelledSet([" ", "!", "a"], np.array([1, 0, 1]), ("0", "1"))


@pytest.mark.parametrize(
    ("train", "test", "accuracy"),
    [
        (PAIRS, PAIRS, 1.0),  # pairs of words count
        (DAYS, MARKED, 1.0),  # marks next to a word do not make it another word
        (BLANK, BLANK, 2 / 3),  # without any word the more common class is predicted
    ],
)
def test_what_a_bag_of_words_distinguishes(train, test, accuracy):
    assert tfidf_accuracy(train, train, test) == pytest.approx(accuracy)


def test_what_a_baseline_counts():
    vectorizer = bag_of_words()
    (row,) = vectorizer.fit_transform(["so so so fine"]).toarray()
    so, fine = (row[vectorizer.vocabulary_[word]] for word in ("so", "fine"))
    assert so / fine == pytest.approx(1 + np.log(3))
    texts, labels = ["good good", "good", "bad", "bad so"], np.array([1, 1, 0, 0])
    features = CountVectorizer(binary=True).fit(texts)
    fitted = NaiveBayesRegression().fit(features.transform(texts), labels)
    good = fitted.ratios_[features.vocabulary_["good"]]
    assert good == pytest.approx(np.log((3 / 5) / (1 / 6)))  # smoothed by one, each class to one


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_what_its_features_can_tell(name):
    words = LabelledSet(["a good film", "a bad film"] * 20, np.array([1, 0] * 20), ("0", "1"))
    fitted = fit_baseline(BASELINES[name], words, words)
    assert fitted.predict(["good", "bad"]).tolist() == [1, 0]
    assert fitted.predict_proba(["good", "bad"])[:, 1].round().tolist() == [1, 0]
    more = LabelledSet(["one", "two", "three"] * 20, np.array([0, 1, 2] * 20), ("1", "2", "3"))
    assert fit_baseline(BASELINES[name], more, more).predict(more.texts[:3]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("script", ["neuron", "transfer"])
@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_is_refused_before_anything_is_read(script, seed, tmp_path, run_here):
    """There is no model and no text; reading them would be another error."""
    names = ("model", "train", "val", "test", "output")
    files = [word for name in names for word in (f"--{name}", tmp_path / name)]
    process = run_here(f"scripts/{script}.py", *files, "--seed", str(seed))
    assert_refused(process, f"--seed is {seed}; it must be at least zero")
    assert not list(tmp_path.iterdir())
