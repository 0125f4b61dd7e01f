"""Values of units: of which units, whose bytes, and in long texts."""

import numpy as np
import pytest

from mlstm_sentiment.engine import Engine
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import _highest_variance_units
from model.inference.weights import save_model

TEXTS = ["good", "", "An awful thing. " * 400, "ça marche — très bien", "x"]


@pytest.fixture
def model(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    return Engine.load(tmp_path / "model")


@pytest.fixture
def sequences(model):
    texts = [f"{number} {text}" for text in TEXTS for number in range(12)]
    return [*map(model.encode, texts), np.zeros(0, np.uint8)]


@pytest.mark.parametrize("state", ["cell", "hidden"])
def test_the_units_of_highest_variance_vary_most(model, sequences, state):
    """More texts than are in memory together, one of them longer than its part."""
    states = model.read(sequences, (), state=state, units=range(12)).unit_states
    expected = np.argsort(-np.concatenate(states).astype(np.float64).var(axis=0))
    counts = []
    options = {"state": state, "advance": counts.append}
    assert _highest_variance_units(model, sequences, 12, **options) == expected.tolist()
    assert sum(counts) == sum(map(len, sequences))
    assert _highest_variance_units(model, sequences, 3, state=state) == expected[:3].tolist()


def test_layers_and_states_that_are_not_there_are_refused(model, sequences):
    with pytest.raises(InputError, match="layer -2: the model has layers 0 to 0"):
        _highest_variance_units(model, sequences, 3, layer=-2)
    with pytest.raises(InputError, match="state is 'Cell'"):
        _highest_variance_units(model, sequences, 3, state="Cell")
