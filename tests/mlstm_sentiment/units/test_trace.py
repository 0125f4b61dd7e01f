"""Which units vary most, and that their values are the engine's."""

import numpy as np
import pytest

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import _widest_ranging_units, read_texts
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
        assert _widest_ranging_units(model, sequences, count, state=state) == expected[:count]


def test_a_long_text_has_the_values_of_one_pass():
    model = Engine.load("default_small")
    text = "I loved it. Then it broke, and nobody answered. " * 700
    (trace,) = read_texts(model, [text.strip()], [3], show_progress=False).traces
    tokens = model.encode(text)
    reading = model.read([tokens], (), state="cell", units=[3])
    assert trace.values[-1] == reading.unit_states[0][-2]  # the frame ends with a space
