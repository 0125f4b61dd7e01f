"""The featurizer among scikit-learn's own tools."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.utils import get_tags

from mlstm_sentiment import SentimentFeaturizer
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, build_model
from tests.conftest import emphatic
from tests.support.runs import ROOT

TEXTS = ["good", "", "An awful thing. " * 30, "ça marche — très bien", "bad\nnews", "good"]


@pytest.fixture
def featurizer(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    return SentimentFeaturizer.from_pretrained(tmp_path / "model")


def test_featurizer_equals_the_features_of_the_model(featurizer, small_model):
    sequences = [np.frombuffer(text_profile("openai").encode(text), np.uint8) for text in TEXTS]
    expected = features_in_order(small_model, sequences)
    features = featurizer.transform(TEXTS)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "parameters",
    [
        {"state": "hidden"},
        {"pooling": ["last", "max"]},
        {"layers": [0]},
        {"layers": "all"},
        {"tanh": True},
        {"units": [3, 1]},
    ],
)
def test_every_parameter_changes_the_features_as_their_kind_says(tmp_path, parameters):
    model = emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6, layers=2), seed=3))
    save_model(tmp_path, model, text_profile("openai"), {})
    sequences = [np.frombuffer(text_profile("openai").encode(text), np.uint8) for text in TEXTS]
    expected = features_in_order(model, sequences, kind=FeatureKind(**parameters))
    features = SentimentFeaturizer(tmp_path, **parameters).transform(TEXTS)
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(features, SentimentFeaturizer(tmp_path).transform(TEXTS))


def test_featurizer_is_a_scikit_learn_transformer(featurizer):
    copy = clone(featurizer)
    assert copy.get_params() == featurizer.get_params()
    np.testing.assert_array_equal(copy.fit(TEXTS).transform(TEXTS), featurizer.transform(TEXTS))
    restored = pickle.loads(pickle.dumps(featurizer))
    np.testing.assert_array_equal(restored.transform(TEXTS), featurizer.transform(TEXTS))
    frame = clone(featurizer).set_output(transform="pandas").fit_transform(TEXTS)
    assert get_tags(featurizer).input_tags.string
    assert list(frame.columns[:2]) == ["unit0", "unit1"]


def test_a_preset_is_a_choice_with_a_name_and_what_is_given_wins(featurizer):
    named = SentimentFeaturizer.from_pretrained(featurizer.model, preset="pooled")
    spelt = clone(featurizer).set_params(pooling=["last", "mean", "max", "min"])
    np.testing.assert_array_equal(named.transform(TEXTS), spelt.transform(TEXTS))
    largest = SentimentFeaturizer.from_pretrained(featurizer.model, preset="pooled", pooling="max")
    assert largest.pooling == "max"
    with pytest.raises(InputError, match=r"^preset is 'best'; known: papers, pooled$"):
        SentimentFeaturizer.from_pretrained(featurizer.model, preset="best")


def test_featurizer_takes_any_row_of_strings(featurizer):
    expected = featurizer.transform(TEXTS)
    for texts in (np.array(TEXTS), pd.Series(TEXTS), tuple(TEXTS), iter(TEXTS)):
        np.testing.assert_array_equal(featurizer.transform(texts), expected)
    assert featurizer.transform([]).shape == (0, 12)
    assert featurizer.set_params(units=[3, 1]).fit_transform([]).shape == (0, 2)


@pytest.mark.parametrize("cell", ["mlstm", "lstm", "gru", "transformer"])
def test_a_model_in_torch_is_featurized_as_its_kind_says(cell, tmp_path):
    """What only torch can compute has the same interface."""
    model = emphatic(build_model(ModelConfig(cell=cell, hidden_size=16, layers=2), seed=3))
    save_model(tmp_path, model, text_profile("openai"), {})
    kind = {"state": "hidden", "pooling": ["last", "mean", "min"], "layers": "all", "units": [3, 1]}
    loaded = load_model(tmp_path)
    features = SentimentFeaturizer(loaded, **kind).transform(TEXTS)
    sequences = [loaded.encode(text) for text in TEXTS]
    expected = features_in_order(loaded.model, sequences, kind=FeatureKind(**kind))
    np.testing.assert_array_equal(features, expected)
    if cell == "mlstm":
        return
    with pytest.raises(InputError, match=f"cell is {cell}, which needs PyTorch") as error:
        SentimentFeaturizer(tmp_path).fit()
    named = re.findall(r"\w+\.py", str(error.value))
    assert named
    assert all((ROOT / "scripts" / name).exists() for name in named)


@pytest.mark.parametrize(
    "texts", ["one string", [b"bytes"], [None], [1.5], None, pd.DataFrame({"text": TEXTS})]
)
def test_featurizer_refuses_what_is_not_a_list_of_texts(featurizer, texts):
    with pytest.raises(InputError, match=r"a list of texts|must be a string"):
        featurizer.transform(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"pooling": None}, "pooling is None; it must be a name or a list"),
        ({"tanh": "no"}, "tanh is 'no'; True or False"),
        ({"units": map(int, "12")}, "it must be a list of whole numbers"),
        ({"model": None}, "model is None; .*a name or a path"),
        ({"units": [12]}, "unit 12: the model has units 0 to 11"),
        ({"model": "missing"}, "'missing'"),
    ],
)
def test_featurizer_refuses_unknown_options(featurizer, options, message):
    with pytest.raises(InputError, match=message):
        clone(featurizer).set_params(**options).fit()


def test_weights_are_prepared_once(small_model, tmp_path, monkeypatch):
    """A service reads one text at a time."""
    save_model(tmp_path, small_model, text_profile("openai"), {})
    featurizer, prepared = SentimentFeaturizer(load_model(tmp_path)).fit(), []
    prepare = LanguageModel.prepare_weights
    monkeypatch.setattr(
        LanguageModel, "prepare_weights", lambda self: prepared.append(self) or prepare(self)
    )
    once = [featurizer.transform([text]) for text in ("good", "bad")]
    assert len(prepared) == 1
    restored = pickle.loads(pickle.dumps(featurizer))
    again = [restored.transform([text]) for text in ("good", "bad")]
    assert len(prepared) == 2
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(once))
    featurizer.loaded_.model.set_precision("bf16")
    assert not np.array_equal(featurizer.transform(["good"]), once[0])


def test_parameters_that_are_set_later_take_effect_at_the_next_fit(
    featurizer, small_model, tmp_path
):
    before = featurizer.transform(TEXTS)
    small_model.embedding.weight.data += 1
    save_model(tmp_path / "other", small_model, text_profile("openai"), {})
    featurizer.set_params(units=[1, 0], state="hidden", tanh=True, model=tmp_path / "other")
    np.testing.assert_array_equal(featurizer.transform(TEXTS), before)
    assert len(featurizer.get_feature_names_out()) == before.shape[1]
    after = featurizer.fit().transform(TEXTS)
    assert after.shape == (len(TEXTS), 2)
    assert featurizer.get_feature_names_out().tolist() == ["unit1", "unit0"]
    with pytest.raises(InputError, match="nonsense"):
        featurizer.set_params(precision="nonsense").fit()
    np.testing.assert_array_equal(featurizer.transform(TEXTS), after)


def test_a_loaded_model_keeps_its_precision(featurizer):
    loaded = load_model(featurizer.model, compute_dtype=torch.bfloat16)
    exact = SentimentFeaturizer(featurizer.model).fit().transform(TEXTS)
    rounded = SentimentFeaturizer(loaded).fit().transform(TEXTS)
    assert 0 < np.abs(rounded - exact).max() < 0.1 * np.abs(exact).max()
    assert loaded.precision == "bf16"
    with pytest.raises(InputError, match="precision exact: the model that is given has bf16"):
        SentimentFeaturizer(loaded, precision="exact").fit()
