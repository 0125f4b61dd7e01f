"""The study of a shipped unit: numbers and figures are kept, sentences are not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from data_utils.synthetic import synthetic_reviews
from experiments.neuron.axes import read
from experiments.neuron.checkpoints import TEXTS, after_words, best_unit
from experiments.neuron.clamped import compared
from experiments.neuron.run import Options, best_units, study
from experiments.published_sets import SETS
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from transfer.regression import Examples, fit_regression


@pytest.fixture
def texts(tmp_path):
    """Write SST's files of made-up reviews; return all their texts."""
    (tmp_path / "sst").mkdir()
    texts = []
    for name, count in (("train", 60), ("val", 40), ("test", 50)):
        reviews = list(synthetic_reviews(count, seed=count))
        texts += [review.text for review in reviews]
        rows = [f'{review.label},"{review.text}"' for review in reviews]
        (tmp_path / f"sst/{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")
    return texts


def runs_of_words(text, length=3):
    words = text.split()
    return [" ".join(words[n : n + length]) for n in range(len(words) - length + 1)]


def test_numbers_are_kept_and_sentences_are_not(texts, small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    places = {"data": tmp_path, "work": tmp_path / "work", "results": tmp_path / "results"}
    model, few = str(tmp_path / "model"), {"draws": 1, "untrained": 1}
    study(Options(model=model, name="mine", **places, **few))
    written = (tmp_path / "results/mine/neuron.json").read_text()
    shipped = json.loads(written)
    whole = json.loads((tmp_path / "work/mine/neuron.json").read_text())
    shown = [piece["text"] for piece in whole["extremes"]["texts"]["highest"]]
    assert shown  # there was something to leave out
    assert set(shown) <= set(texts)
    runs = {run for text in texts for run in runs_of_words(text)}
    assert not [run for run in runs if json.dumps(run)[1:-1] in written]
    areas = [0.5 + u["polarity"] * (u["test_area"] - 0.5) for u in best_units(shipped["ranking"])]
    assert shipped["areas"]["apart"][0]["difference"] == pytest.approx(areas[0] - areas[1])
    assert {"by_units", "by_labels", "ranking", "without", "baselines"} <= shipped.keys()
    for part, measure in (("texts", {"value"}), ("moments", {"word", "change"})):
        full, left = whole["extremes"][part], shipped["extremes"][part]
        assert full.keys() == left.keys()
        for kind, rows in left.items():
            assert len(rows) == len(full[kind]) > 0
            for row, piece in zip(rows, full[kind], strict=True):
                assert row == {key: piece[key] for key in {"row", "label"} | measure}
                assert not {"text", "values"} & row.keys()
    assert shipped["extremes"]["words"] == whole["extremes"]["words"]
    for kinds in (shipped["extremes"][part] for part in ("texts", "moments", "words")):
        strings = [v for rows in kinds.values() for row in rows for v in row.values()]
        assert not [v for v in strings if isinstance(v, str) and len(v.split()) != 1]
    figures = {path.name for path in (tmp_path / "results/mine").glob("*.png")}
    assert figures == {"histogram.png", "ranking.png", "by_units.png", "by_labels.png"}


def test_the_best_unit_of_a_checkpoint_is_high_for_positive_texts(texts, small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    train, val, _ = SETS["sst"].read(tmp_path).sets
    found = best_unit(Engine.load(tmp_path / "model"), train, val)
    turned = [(part, 1 - part.labels) for part in (train, val)]
    other = best_unit(
        Engine.load(tmp_path / "model"), *(replace(part, labels=labels) for part, labels in turned)
    )
    assert other["unit"] == found["unit"]
    assert other["auc"] == found["auc"]
    for text, values, negated in zip(TEXTS, found["values"], other["values"], strict=True):
        assert len(values) == len(text.split())
        np.testing.assert_allclose(values, np.negative(negated))


def test_a_word_has_the_value_of_its_last_letter():
    assert after_words("so very good", np.arange(12) / 4) == [0.25, 1.5, 2.75]


def test_a_held_unit_stands_still_and_the_others_read_on_without_it(texts, small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    engine, sets = Engine.load(tmp_path / "model"), SETS["sst"].read(tmp_path).sets
    free = read(engine, sets)
    held = read(engine, sets, Clamp(unit=3, cell=0.25))
    for before, after in zip(free, held, strict=True):
        np.testing.assert_array_equal(after.features[:, 3], np.float32(0.25))
        assert not np.allclose(np.delete(before.features, 3, 1), np.delete(after.features, 3, 1))
        np.testing.assert_array_equal(before.labels, after.labels)


def test_what_the_others_took_from_a_unit_is_lost_only_if_it_is_held():
    """Unit 1 repeats unit 0, which knows the label, unless unit 0 is held; unit 2 knows nothing."""
    draw = np.random.default_rng(5)
    free, held = [], []
    for count in (200, 100, 150):
        labels = draw.integers(0, 2, count)
        known = np.where(labels == 1, 1.0, -1.0)
        noise = draw.normal(size=(count, 2))
        free.append(Examples(np.stack([known, known, noise[:, 0]], 1), labels))
        held.append(Examples(np.stack([np.zeros(count), *noise.T], 1), labels))
    row = compared(0, fit_regression(*free[:2]), free, held)
    (left_out,), (held_still,) = row["left_out"]["sets"], row["held"]["sets"]
    assert left_out["lost"] == 0
    assert row["left_out"]["next"] == {"unit": 1, "areas": [1.0, 1.0]}
    assert held_still["lost"] == 1 - held_still["test_accuracy"]
    assert held_still["lost_interval"][0] > 0.3
    assert max(row["held"]["next"]["areas"]) < 0.7
