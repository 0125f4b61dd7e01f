"""Features of a model's states: which are compared, alone and side by side."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data_utils.labelled import LabelledSet
from experiments.neuron.features import Options, main, read_side_by_side
from experiments.neuron.fits import WAYS
from model.errors import InputError
from model.files.storage import read_json
from model.files.weights import load_model, save_model
from model.inference.features import FeatureKind, features_in_order
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile

TEXTS = {"good": 1, "fine": 1, "awful thing": 0, "bad": 0}


@pytest.fixture
def loaded(tmp_path):
    model = build_model(ModelConfig(hidden_size=6), seed=0)
    save_model(tmp_path / "model", model, text_profile("openai"), {})
    return load_model(tmp_path / "model", compute_dtype=torch.float32)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "sst").mkdir()
    rows = "".join(f"{label},{text}\n" for text, label in TEXTS.items())
    for name in ("train", "val", "test"):
        (tmp_path / "sst" / f"{name}.csv").write_text(f"label,sentence\n{rows}")
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*texts are in")
def test_only_some_features_are_compared(loaded, data, tmp_path, monkeypatch):
    output = tmp_path / "found.json"
    only = ["cell mean", "cell last + cell mean"]
    given = {"model": tmp_path / "model", "data": data, "work": tmp_path / "work", "sets": "sst"}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    words += ["--output", str(output), "--only", *only]
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


def test_features_that_cannot_be_compared():
    options = {"data": Path(), "output": Path("o.json")}
    with pytest.raises(InputError, match="none of cell last, "):
        Options(**options, only=("cell median",))
    with pytest.raises(InputError, match="--beside: name the features with --only"):
        Options(**options, beside=("amazon_1024",))
