"""Pooled features equal a loop over bytes, whatever the batch, the order and the length."""

import numpy as np
import pytest
import torch

from mlstm_sentiment.engine.kinds import _PRESETS, FeatureKind, preset
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import Pool, features_in_order
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic

NOT_FINITE = (
    "^features become NaN or infinite: the model's weights are damaged, or too large for "
    "products in float32$"
)
TEXTS = ["good", "", "An awful thing. " * 9, "ça marche — très bien", "bad\nnews", "good"]


@pytest.fixture(scope="module")
def deep_model():
    return emphatic(build_model(ModelConfig(hidden_size=7, embedding_size=5, layers=3), seed=1))


@pytest.fixture
def sequences():
    return [np.frombuffer(text_profile("openai").encode(text), np.uint8) for text in TEXTS]


def by_the_byte(model, sequence, state_name, pooling, layers, tanh):
    """The definition: one byte at a time; all states are stored and pooled by NumPy in fp64."""
    state, seen = model.initial_state(1), []
    with torch.no_grad():
        for byte in sequence:
            _, state = model(torch.tensor([[int(byte)]]), state)
            chosen = state.c if state_name == "cell" else state.h
            seen.append(np.concatenate([chosen[layer, 0].double().numpy() for layer in layers]))
    values = np.tanh(seen) if tanh else np.array(seen)
    return {"last": values[-1], "mean": values.mean(0), "max": values.max(0), "min": values.min(0)}[
        pooling
    ]


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "min"])
@pytest.mark.parametrize(
    ("state", "layers", "numbers", "tanh"),
    [
        ("cell", "last", [2], False),
        ("cell", "all", [0, 1, 2], True),
        ("hidden", [2, 0], [2, 0], False),
        ("hidden", [1], [1], False),
    ],
)
def test_features_are_pooled_over_every_byte(
    deep_model, sequences, pooling, state, layers, numbers, tanh
):
    kind = FeatureKind(state=state, pooling=pooling, layers=layers, tanh=tanh)
    features = features_in_order(deep_model, sequences, kind=kind, batch_size=4)
    assert features.dtype == np.float32
    assert features.shape == (len(TEXTS), 7 * len(numbers)) == (6, kind.size(deep_model.config))
    for sequence, feature in zip(sequences, features, strict=True):
        expected = by_the_byte(deep_model, sequence, state, pooling, numbers, tanh)
        np.testing.assert_allclose(feature, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "min"])
def test_a_text_without_bytes_has_the_zero_state(small_model, pooling):
    sequences = [np.zeros(0, np.uint8), np.frombuffer(text_profile("raw").encode("good"), np.uint8)]
    kind = FeatureKind(pooling=pooling)
    features = features_in_order(small_model, sequences, kind=kind)
    assert not features[0].any()
    assert features[1].all()


class Watched:
    """A model that notes the shape of every window it reads, and the weights that it reads with."""

    def __init__(self, model):
        self.model, self.seen, self.prepared, self.used = model, [], [], []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def prepare_weights(self):
        self.prepared.append(self.model.prepare_weights())
        return self.prepared[-1]

    def hidden(self, tokens, state, weights):
        self.seen.append(tokens.shape)
        self.used.append(weights)
        return self.model.hidden(tokens, state, weights)


@pytest.mark.parametrize(
    ("state", "pooling", "most"),
    [("cell", "last", 128), ("cell", "mean", 1), ("hidden", "last", 128), ("hidden", "mean", 128)],
)
def test_a_long_text_is_read_in_windows(small_model, state, pooling, most):
    """The model never sees more than a window, so no tensor is as long as the text.

    Cell states alone, where each of them counts, are read byte by byte.
    """
    sequence = np.frombuffer(text_profile("raw").encode("long " * 600), np.uint8)
    model = Watched(small_model)
    kind = FeatureKind(state=state, pooling=pooling)
    assert features_in_order(model, [sequence], kind=kind).shape == (1, 12)
    assert sum(length for _, length in model.seen) == 3000
    assert max(length for _, length in model.seen) == most
    assert len(model.seen) == -(-3000 // most)


def test_weights_are_prepared_once_and_their_features_are_finite(small_model, sequences):
    model = Watched(small_model)
    features_in_order(model, sequences, batch_size=2)
    assert len(model.prepared) == 1
    assert len(model.used) > 3
    assert all(weights is model.prepared[0] for weights in model.used)
    prepared, model = model.prepared[0], Watched(small_model)
    features_in_order(model, sequences, batch_size=2, weights=prepared)
    assert not model.prepared
    assert all(weights is prepared for weights in model.used)
    with torch.no_grad():
        small_model.embedding.weight[ord("g")] = torch.nan
    with pytest.raises(InputError, match=NOT_FINITE):
        features_in_order(small_model, sequences)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "memory"}, "state is 'memory'; known: cell, hidden"),
        ({"pooling": "sum"}, "pooling is 'sum'; known: last, mean, max, min"),
        ({"pooling": ["mean", "mean"]}, "name each once"),
        ({"pooling": []}, "at least one"),
        ({"layers": [3]}, "layer 3: the model has layers 0 to 2"),
        ({"layers": []}, "at least one"),
        ({"units": [7]}, "unit 7: the model has units 0 to 6"),
        ({"units": []}, r"units is \[\]; .* at least one$"),
        ({"units": [False, True, True, False, False, False, False]}, "unit False"),
        ({"units": [-1]}, "unit -1"),
        ({"units": 3}, "units is 3; it must be a list"),
        ({"units": np.ones((2, 2), int)}, "units is array"),
        ({"layers": [-1]}, "layer -1: the model"),
        ({"layers": [2, 0, 2]}, r"layers is \[2, 0, 2\]; name each once"),
        ({"units": np.array([3, 3])}, r"units is \[.*3.*3.*\]; name each once"),
    ],
)
def test_unknown_kinds_are_refused(deep_model, options, message):
    with pytest.raises(InputError, match=message):
        FeatureKind(**options).size(deep_model.config)


@pytest.mark.parametrize("batch_size", [0, -1, True, 2.5, "8"])
def test_a_batch_size_must_be_a_whole_number(small_model, sequences, batch_size):
    with pytest.raises(InputError, match=f"the batch size is {batch_size!r}; it must be"):
        features_in_order(small_model, sequences, batch_size=batch_size)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_numpys_whole_numbers_name_units_and_layers(deep_model, sequences, dtype):
    kinds = [FeatureKind(units=[4, 1], layers=[2, 0])]
    kinds.append(FeatureKind(units=np.array([4, 1], dtype), layers=np.array([2, 0], dtype)))
    assert kinds[0] == kinds[1] != FeatureKind()
    plain, numpys = (features_in_order(deep_model, sequences, kind=kind) for kind in kinds)
    np.testing.assert_array_equal(plain, numpys)
    assert kinds[0].names(deep_model.config) == kinds[1].names(deep_model.config)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_chosen_units_are_columns_of_all(deep_model, sequences, pooling):
    everything = features_in_order(
        deep_model, sequences, kind=FeatureKind(pooling=pooling, layers="all")
    )
    kind = FeatureKind(pooling=pooling, layers="all", units=[4, 1])
    chosen = features_in_order(deep_model, sequences, kind=kind)
    np.testing.assert_array_equal(chosen, everything[:, [4, 1, 11, 8, 18, 15]])
    assert kind.names(deep_model.config)[:3] == ["layer0_unit4", "layer0_unit1", "layer1_unit4"]


def test_poolings_stand_side_by_side(deep_model, sequences):
    kind = FeatureKind(pooling=["mean", "last"], units=[4, 1])
    both = features_in_order(deep_model, sequences, kind=kind, batch_size=4)
    alone = [
        features_in_order(deep_model, sequences, kind=FeatureKind(pooling=name, units=[4, 1]))
        for name in ("mean", "last")
    ]
    np.testing.assert_allclose(both, np.concatenate(alone, axis=1), rtol=1e-5, atol=1e-6)
    names = ["mean_unit4", "mean_unit1", "last_unit4", "last_unit1"]
    assert kind.names(deep_model.config) == names
    assert kind.size(deep_model.config) == 4


def mean_of(*windows):
    """Return the mean of the values [T] of some windows, which a `Pool` was given."""
    pool = Pool("mean", 1, 1, torch.device("cpu"))
    for values in windows:
        pool.add(values.view(-1, 1, 1))
    return pool.features().item()


@pytest.mark.parametrize("lengths", [(1, 1, 1), (3,)])
def test_a_mean_over_many_bytes_is_added_up_in_double_precision(lengths):
    """fp32 would lose ones added to 2^24."""
    values = torch.tensor([2.0**24, 1.0, 1.0])
    assert mean_of(*values.split(lengths)) == (2**24 + 2) / 3


def test_many_bytes_are_counted_in_double_precision():
    one = torch.ones(1)
    assert mean_of(one.expand(2**24), one, one, one) == 1


def test_a_kind_has_one_spelling_and_what_stands_next_to_a_preset_wins():
    assert FeatureKind(pooling=["last"]) == FeatureKind()
    assert FeatureKind(pooling=["mean"]).pooling == "mean"
    listed, tupled = (FeatureKind(pooling=kind(("last", "mean"))) for kind in (list, tuple))
    assert repr(listed) == repr(tupled)
    assert preset("papers", units=[], tanh=None) == {**_PRESETS["papers"], "units": []}
