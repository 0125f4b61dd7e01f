"""Which units vary most."""

import numpy as np
import pytest

from mlstm_sentiment.engine import Engine
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import _widest_ranging_units
from model.inference.weights import save_model

TEXTS = ["good", "", "An awful thing. " * 400, "ça marche — très bien", "x"]


@pytest.mark.parametrize("state", ["cell", "hidden"])
def test_the_units_that_range_widest_vary_most(small_model, tmp_path, state):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    model = Engine.load(tmp_path / "model")
    sequences = [*map(model.encode, TEXTS), np.zeros(0, np.uint8)]
    states = model.read(sequences, (), state=state, units=range(12)).unit_states
    expected = np.argsort(-np.ptp(np.concatenate(states), axis=0), kind="stable").tolist()
    for count in (12, 3):
        assert (
            _widest_ranging_units(model, sequences, count, state=state, layer=-1)
            == expected[:count]
        )
