"""Traced values are the model's own state, byte by byte."""

from functools import partial

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile
from model.units import trace as tracing
from model.units.trace import ByteState, highest_variance_units, trace

TEXTS = ["good", "", "An awful thing. " * 20, "ça marche — très bien", "x"]


@pytest.fixture
def sequences():
    return [np.frombuffer(text_profile("openai").encode(text), np.uint8) for text in TEXTS] + [
        np.zeros(0, np.uint8)
    ]


@pytest.fixture(params=["mlstm", "lstm"])
def deep_model(request):
    config = ModelConfig(cell=request.param, hidden_size=7, embedding_size=5, layers=2)
    return build_model(config, seed=4).eval()


def stepped(model, sequence, name, layer):
    state = model.initial_state(1)
    values = np.empty((len(sequence), model.config.hidden_size), np.float32)
    with torch.no_grad():
        for position, byte in enumerate(sequence.tolist()):
            _, state = model.step(torch.tensor([byte]), state)
            values[position] = (state.c if name == "cell" else state.h)[layer, 0]
    return values


@pytest.mark.parametrize("name", ["cell", "hidden"])
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_values_are_those_of_step(deep_model, sequences, name, layer):
    traces = trace(deep_model, sequences, state=name, layer=layer)
    for sequence, values in zip(sequences, traces, strict=True):
        assert values.dtype == np.float32
        expected = stepped(deep_model, sequence, name, layer)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_one_text_alone_equals_step_to_the_bit(small_model, sequences):
    (values,) = trace(small_model, sequences[3:4])
    np.testing.assert_array_equal(values, stepped(small_model, sequences[3], "cell", -1))


@pytest.mark.parametrize("kind", [list, np.array, np.uint8])
def test_units_come_in_the_order_asked_for(small_model, sequences, kind):
    whole = trace(small_model, sequences)
    some = trace(small_model, sequences, kind([7, 0, 7]))
    for all_units, chosen in zip(whole, some, strict=True):
        np.testing.assert_array_equal(chosen, all_units[:, [7, 0, 7]])


def test_the_units_of_highest_variance_vary_most(small_model, sequences):
    values = np.concatenate(trace(small_model, sequences)).astype(np.float64)
    expected = np.argsort(-values.var(axis=0))
    assert highest_variance_units(small_model, sequences, 12) == expected.tolist()
    assert highest_variance_units(small_model, sequences, 3) == expected[:3].tolist()


def test_units_and_layers_that_are_not_there_are_refused(small_model, sequences):
    with pytest.raises(InputError, match="unit 12: the model has units 0 to 11"):
        trace(small_model, sequences, [0, 12])
    for unit in (True, 1.0, "1", -1):
        with pytest.raises(InputError, match=f"unit {unit!r}: the model has units 0 to 11"):
            trace(small_model, sequences, [unit])
    for read in (trace, partial(highest_variance_units, count=3)):
        with pytest.raises(InputError, match="layer -2: the model has layers 0 to 0"):
            read(small_model, sequences, layer=-2)
        with pytest.raises(InputError, match="state is 'Cell'"):
            read(small_model, sequences, state="Cell")


def test_variances_are_those_of_all_bytes_however_many_are_read_at_once(small_model, monkeypatch):
    """Bytes come in batches of other sizes and means; the order of units distinguishes them."""
    random = np.random.default_rng(0)
    sizes, units = (1, 7, 2, 5, 1), small_model.config.hidden_size
    batches = [random.normal(random.normal(size=units), 1.0, (n, units)) for n in sizes]
    values = np.concatenate(batches).astype(np.float32)
    counts = []

    def iter_states(*_, **__):
        for part in np.split(values, np.cumsum(sizes)[:-1]):
            yield ByteState(np.arange(len(part)), 0, torch.from_numpy(part))

    monkeypatch.setattr(tracing, "iter_states", iter_states)
    units_by_variance = highest_variance_units(small_model, [], units, advance=counts.append)
    assert units_by_variance == np.argsort(-values.astype(np.float64).var(axis=0)).tolist()
    assert counts == list(sizes)


def test_progress_counts_every_byte(small_model, sequences):
    for read in (trace, partial(highest_variance_units, count=3)):
        counts, records = [], []

        def advance(count, counts=counts, records=records):
            counts.append(count)
            records.append(torch.is_grad_enabled())

        read(small_model, sequences, advance=advance)
        assert sum(counts) == sum(map(len, sequences))
        assert not any(records)  # the history of every state would stay in memory
