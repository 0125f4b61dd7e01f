"""Features: which are compared, and the chances of the titles that are frequent in a corpus."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data_utils.labelled import LabelledSet
from experiments.features import prompts, tables
from experiments.features.fits import WAYS
from experiments.features.run import (
    BY_NAME,
    CHANCES,
    CHOICES,
    Options,
    main,
    read_chances,
    read_side_by_side,
)
from experiments.features.titles import frequent_openings, title_scores
from model.errors import InputError
from model.features import FeatureKind, features_in_order
from model.files.storage import read_json
from model.files.weights import load_model, save_model
from model.language_model import ModelConfig, build_model
from model.text.profiles import text_profile
from model.text.split import encode_split
from transfer.regression import Examples

TITLES = ["Great product", "Great product for a desk", "Great", "Five Stars", "Bad", "Great, it is"]
REVIEWS = [f"text number {n} | {title}" for n, title in enumerate(TITLES)] + ["no title"]
TEXTS = {"good": 1, "fine": 1, "awful thing": 0, "bad": 0}


@pytest.fixture
def split():
    return encode_split(REVIEWS * 2, text_profile("openai"))


def test_openings_are_two_words_the_most_frequent_first_and_name_no_stars(split):
    assert frequent_openings(split, 9) == ["Great product", "Great", "Bad", "Great, it"]
    assert frequent_openings(split, 1) == ["Great product"]


@pytest.fixture
def loaded(tmp_path):
    model = build_model(ModelConfig(hidden_size=6), seed=0)
    save_model(tmp_path / "model", model, text_profile("openai"), {})
    return load_model(tmp_path / "model", compute_dtype=torch.float32)


class OfOne:
    """A corpus with one split."""

    def __init__(self, split):
        self.splits = {"train": split}


def test_the_chances_are_of_every_opening_and_every_set(loaded, split, monkeypatch):
    monkeypatch.setattr("experiments.features.run.open_corpus", lambda _: OfOne(split))
    sets = [
        LabelledSet(texts, np.zeros(len(texts), int), ("0", "1"))
        for texts in (["one text", "another"], ["a third"])
    ]
    found = read_chances(sets, loaded, Path("corpus"))
    assert [part.shape for part in found] == [(2, 4), (1, 4)]
    # "Great product" over "Bad", by the function that the score without labels uses
    scores = title_scores(loaded, sets[0].texts, openings=(["Great product"], ["Bad"]))
    np.testing.assert_allclose(found[0][:, 0] - found[0][:, 2], scores, atol=1e-5)


def test_the_state_after_a_prompt_is_that_of_the_text_with_it(loaded):
    texts = ["one text", "another, longer text", "x"]
    found = prompts.cells_after(loaded, texts, {"none": "", "title": "| A "})
    for title, ending in (("none", ""), ("title", " | A")):
        sequences = [loaded.tokens(text + ending) for text in texts]
        expected = features_in_order(loaded.model, sequences, kind=FeatureKind())
        np.testing.assert_allclose(found[title], expected, atol=1e-6)


def test_pieces_of_words_continue_a_text_as_they_would_have_read_it(
    subword_model, subwords, tmp_path
):
    save_model(tmp_path / "m", subword_model, text_profile("openai"), {}, tokenizer=subwords)
    loaded = load_model(tmp_path / "m", compute_dtype=torch.float32)
    parts = prompts.tokens_of_text(loaded, "a good film"), prompts.tokens_of_prompt(loaded, "| A ")
    whole = subwords.encode(b"\n a good film | A")
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    found = prompts.cells_after(loaded, ["a good film"], {"none": "", "title": "| A "})
    assert found["none"].shape == found["title"].shape == (1, 12)
    assert (found["none"] != found["title"]).any()


def test_units_are_chosen_on_train_and_counted_in_both_directions():
    rng = np.random.default_rng(0)

    def drawn(sign):
        labels = np.arange(200) % 2
        features = rng.normal(size=(200, 5))
        features[:, 1] += 2 * labels
        features[:, 2] -= sign * 5 * labels
        return Examples(features, labels)

    test = drawn(-1)
    found, right = prompts.units_of([drawn(1), drawn(1), test])
    assert right.mean() == pytest.approx(found["best_unit"]["test_accuracy"])
    assert found["clearest"][:2] == [2, 1]
    assert found["best_unit"]["axis"] == 2  # though it fails on test
    assert found["best_unit"]["test_accuracy"] < 0.6
    assert found["clear"] == 2
    assert found["areas"][1] > prompts.CLEAR > found["areas"][2]


@pytest.mark.filterwarnings("ignore:.*texts are in")
def test_prompts_are_measured_and_drawn(loaded, data, tmp_path, monkeypatch):
    output, figure = tmp_path / "found.json", tmp_path / "found.png"
    given = {"model": tmp_path / "model", "data": data, "sets": "sst", "output": output}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    monkeypatch.setattr("sys.argv", ["prompts", *words, "--figure", str(figure)])
    prompts.main()
    of_set = read_json(output)["sets"]["sst"]
    assert list(of_set["after"]) == list(prompts.PROMPTS)
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "sst").mkdir()
    rows = "".join(f"{label},{text}\n" for text, label in TEXTS.items())
    for name in ("train", "val", "test"):
        (tmp_path / "sst" / f"{name}.csv").write_text(f"label,sentence\n{rows}")
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*texts are in")
def test_only_some_features_are_compared(loaded, data, split, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.features.run.open_corpus", lambda _: OfOne(split))
    output = tmp_path / "found.json"
    only = ["cell mean", "cell last + cell mean + chances of titles"]
    given = {"model": tmp_path / "model", "data": data, "work": tmp_path / "work", "sets": "sst"}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    words += ["--corpus", "corpus", "--output", str(output), "--only", *only]
    monkeypatch.setattr("sys.argv", ["run", *words])
    main()
    found = read_json(output)["sets"]["sst"]
    compared = [" + ".join(row["features"]) for row in found["rows"]]
    # L1 is fitted only on one kind of features.
    assert compared == [only[0]] * len(WAYS) + [only[1]] * (len(WAYS) - 1)
    assert not {"axes", "titles"} & found.keys()


def test_features_of_two_models_stand_side_by_side_by_kind(loaded, tmp_path):
    other = build_model(ModelConfig(hidden_size=4), seed=1)
    save_model(tmp_path / "other", other, text_profile("openai"), {})
    models = [loaded, load_model(tmp_path / "other", compute_dtype=torch.float32)]
    sets = [LabelledSet(list(TEXTS), np.array(list(TEXTS.values())), ("0", "1"))] * 2
    found = read_side_by_side(sets, models, tmp_path / "work", "sst", {"cell mean"})
    for part in (0, 1):
        expected = [
            features_in_order(
                each.model, [each.tokens(text) for text in TEXTS], kind=FeatureKind(pooling="mean")
            )
            for each in models
        ]
        np.testing.assert_allclose(found["cell mean"][part], np.hstack(expected), atol=1e-6)


def test_models_side_by_side_are_compared_by_the_features_that_all_have(monkeypatch):
    def of(*rows, beside=()):
        told = [dict(zip(("features", "fit", "val_accuracy"), row, strict=True)) for row in rows]
        model = {"architecture": {"hidden_size": 1024}}
        examples = {"sst": {"examples": [1, 1, 9], "rows": told}}
        return {"model": model, "sets": examples, "beside": [model for _ in beside]}

    mean, wide = ["cell mean"], ["cell mean", "cell max"]
    found = {
        "one": of((mean, "L1", 0.7), (mean, "L2", 0.6), (wide, "L2", 0.8)),
        "two": of((mean, "L1", 0.5), (mean, "L2", 0.6), beside=("other",)),
    }
    monkeypatch.setattr(tables, "SIDES", {"one": "bytes", "two": "bytes, pieces"})
    monkeypatch.setattr(tables, "read_result", lambda study, name: found[name])
    monkeypatch.setattr(tables, "origins", lambda results: "somewhere")
    monkeypatch.setattr(tables, "accuracy", lambda row: f"{row['fit']} {row['val_accuracy']}")
    lines = tables.side_by_side().splitlines()
    assert lines[0] == "| models | units | SST |"
    assert lines[2:4] == ["| bytes | 1,024 | L1 0.7 |", "| bytes, pieces | 2,048 | L2 0.6 |"]


@pytest.mark.parametrize("only", [(), (CHANCES,)])
def test_models_stand_side_by_side_only_with_their_states(only):
    options = {"data": Path(), "output": Path("o.json"), "corpus": Path("corpus"), "only": only}
    with pytest.raises(InputError, match="--beside: name features of the states with --only"):
        Options(**options, beside=("amazon_1024",))


@pytest.mark.parametrize(
    ("name", "message"), [("cell median", "none of cell last, "), (CHANCES, "needs --corpus")]
)
def test_features_that_cannot_be_compared(name, message):
    with pytest.raises(InputError, match=message):
        Options(data=Path(), output=Path("o.json"), only=(name,))


def test_every_choice_has_a_name_of_its_own():
    assert len(BY_NAME) == len(CHOICES) + 3
    assert Options(data=Path(), output=Path("o.json")).choices == list(CHOICES)
