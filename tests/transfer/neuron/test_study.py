"""The study of a unit, from texts to numbers and figures."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from data_utils.labelled import LabelledSet, against_rest
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.data_utils.preparation.interruptions import interrupted_at
from tests.mlstm_sentiment.pages.hostile import NASTY
from tests.support.folders import contents
from tests.transfer.examples import make_set, with_questions
from transfer.features import FeatureCache
from transfer.neuron import study as neuron_study
from transfer.neuron.report import FIGURES, write_figures
from transfer.neuron.study import run_study
from transfer.plots import unit_histogram
from transfer.regression import fit_regression
from transfer.task import StudyOptions

OPTIONS = StudyOptions(labels=(8, 60), draws=2, untrained=2)
NASTY_CLASS = '<b>"yes" & no</b>'


@pytest.fixture(scope="module")
def sets():
    """Synthetic reviews, some of them hostile, under a hostile label."""
    parts = [make_set(60, 1), make_set(40, 2), make_set(50, 3)]
    return [
        LabelledSet(part.texts[: -len(NASTY)] + NASTY, part.labels, ("0", NASTY_CLASS))
        for part in parts
    ]


@pytest.fixture(scope="module")
def studied(tmp_path_factory, sets):
    """A study of a small model: its results and its folder."""
    folder = tmp_path_factory.mktemp("study")
    model = emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3))
    save_model(folder / "m", model, text_profile("openai"), {"characters": 1234567})
    loaded = load_model(folder / "m", compute_dtype=torch.float32)
    results = run_study(loaded, sets, folder, OPTIONS)
    write_figures(results, folder / "figures")
    return results, folder, loaded


def test_the_numbers_are_in_the_file_with_their_intervals(studied):
    results, folder, _ = studied
    saved = json.loads((folder / "neuron.json").read_text())
    assert saved == results
    assert saved["examples"] == {"train": 60, "val": 40, "test": 50}
    assert saved["by_labels"]["counts"] == [8, 60]
    assert len(saved["baselines"]["untrained"]["accuracies"]) == 2
    assert {"git_revision", "command"} <= set(saved["origin"])
    assert sum(map(sum, list(saved["histogram"].values())[1:])) == 50
    accurate = [
        saved["all_units"],
        saved["alone"],
        saved["without"]["held"],
        *saved["by_units"]["weight"],
    ]
    accurate += [*saved["baselines"].values(), *saved["by_labels"]["curves"]["tfidf"]]
    accurate += saved["ranking"]["units"]
    for row in accurate:
        low, high = row["test_interval"]
        assert 0 <= low <= row["test_accuracy"] <= high <= 1


def test_the_unit_and_figures_are_those_of_the_file(studied):
    results = studied[0]
    weights = np.abs(results["ranking"]["weight"])
    assert weights.any()
    assert results["neuron"]["index"] == weights.argmax()
    assert results["neuron"]["rank"]["weight"] == 1
    assert (
        results["by_units"]["weight"][-1]["test_accuracy"] == results["all_units"]["test_accuracy"]
    )
    _, folder, _ = studied
    saved = json.loads((folder / "neuron.json").read_text())
    write_figures(saved, folder / "again")
    assert {path.stem for path in contents(folder / "figures")} == set(FIGURES)
    for name in FIGURES:
        drawn = (folder / "figures" / f"{name}.png").read_bytes()
        assert drawn.startswith(b"\x89PNG")
        assert (folder / "again" / f"{name}.png").read_bytes() == drawn


def test_a_figure_that_fails_leaves_the_others(studied, tmp_path, caplog, monkeypatch):
    def unable(study):
        raise RuntimeError("no\n font")

    monkeypatch.setitem(FIGURES, "by_units", unable)
    write_figures(studied[0], tmp_path)
    assert sorted(path.stem for path in contents(tmp_path)) == ["by_labels", "histogram", "ranking"]
    (record,) = caplog.records
    assert "by_units.png could not be drawn (RuntimeError: no font)" in record.getMessage()


def test_an_interrupted_study_leaves_the_earlier_one_whole(tmp_path, studied, sets):
    folder = shutil.copytree(studied[1], tmp_path / "study")  # with the features
    with interrupted_at("measuring: baselines", logger="transfer"):
        run_study(studied[2], sets, folder, OPTIONS)
    assert (folder / "neuron.json").read_bytes() == (studied[1] / "neuron.json").read_bytes()


def test_one_unit_alone_is_no_study(tmp_path, sets):
    model = build_model(ModelConfig(hidden_size=1, embedding_size=3), seed=3)
    save_model(tmp_path / "m", model, text_profile("openai"), {})
    with pytest.raises(InputError, match="the model has one unit"):
        run_study(load_model(tmp_path / "m"), sets, tmp_path / "out", OPTIONS)


def test_a_unit_that_is_named_is_the_one_that_is_studied(tmp_path, studied, sets, monkeypatch):
    calls = {}
    slow = ("measure_baselines", "label_efficiency", "find_top_activations", "without_unit")
    for part in (*slow, "accuracy_by_units"):

        def note(*arguments, part=part, **options):
            calls[part] = arguments, options
            return {}

        monkeypatch.setattr(neuron_study, part, note)
    first, folder, loaded = studied
    folder = shutil.copytree(folder, tmp_path / "study")
    examples = FeatureCache(folder / "features").examples(loaded, sets)
    fits = [fit_regression(*(p.units([u]) for p in examples[:2])) for u in range(12)]
    alone = first["alone"]["c"], first["alone"]["val_accuracy"]
    unit = next(u for u, fit in enumerate(fits) if (fit.c, fit.val_accuracy) != alone)
    results = run_study(loaded, sets, folder, replace(OPTIONS, neuron=unit, seed=5))
    neuron, test = results["neuron"], examples[2].units([unit])
    assert (neuron["index"], neuron["chosen"]) == (unit, "name")
    assert first["neuron"]["chosen"] == "weight"
    assert results["alone"]["c"] == fits[unit].c
    assert results["alone"]["val_accuracy"] == fits[unit].val_accuracy
    assert results["alone"]["test_accuracy"] == fits[unit].accuracy(test)
    assert results["histogram"] == unit_histogram(unit, examples[2])
    values, *searched = calls["find_top_activations"][0][2:]
    np.testing.assert_array_equal(values, test.features[:, 0])
    assert searched == [unit, neuron["polarity"], neuron["cut"], 5]
    assert calls["without_unit"][0][0] == unit
    assert calls["label_efficiency"][0][2] == unit
    assert calls["label_efficiency"][1] == {"counts": [8, 60], "draws": 2, "seed": 5}
    right, *rest = calls["measure_baselines"][0][3:]
    np.testing.assert_array_equal(right, fit_regression(*examples[:2]).correct(examples[2]))
    assert rest == [5, 2]


def test_one_class_against_the_rest(sets):
    three = [with_questions(part, 5) for part in (make_set(20, 1), make_set(20, 2))]
    first, second = against_rest(three, "question")
    assert first.classes == second.classes == ("not question", "question")
    assert first.labels.tolist() == [0] * 20 + [1] * 5
    with pytest.raises(InputError, match="unknown class 'x'; known: '0', '1', 'question'"):
        against_rest(three, "x")


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda part: with_questions(part, 5), {}, "classes 0, 1, question; .* --positive"),
        (None, {"neuron": 12}, "unit 12: the model has units 0 to 11"),
        (None, {"labels": (10, 61)}, "--labels must be between 2 and 60"),
        (None, {"draws": 0}, "--draws is 0; it must be at least 1"),
        (None, {"seed": 2**31}, r"at least zero and below 2\^31"),
        (lambda part: LabelledSet(part.texts, part.labels * 0, ("0", "1")), {}, "single class"),
        (lambda part: LabelledSet([" "] * 60, part.labels[:60], ("0", "1")), {}, "is empty"),
    ],
)
def test_refusals_come_before_any_work(tmp_path, studied, sets, change, options, words):
    changed = [change(make_set(60, seed)) for seed in range(3)] if change else sets
    with pytest.raises(InputError, match=words):
        run_study(studied[2], changed, tmp_path / "none", StudyOptions(**options))
    assert not (tmp_path / "none").exists()
