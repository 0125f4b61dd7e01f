"""Long texts in pieces have the values of the engine."""

import numpy as np
import pytest

from mlstm_sentiment.engine import Engine, Familiarity, pieces
from mlstm_sentiment.engine.kinds import POOLINGS
from mlstm_sentiment.engine.pieces import in_pieces
from tests.support.texts import texts_of_many_kinds

FAMILIARITY = Familiarity(2.0, 40.0)


@pytest.fixture(scope="module")
def engine():
    return Engine.load("default_small")


def compare(engine, tokens, close, **options):
    """Compare states and what is pooled."""
    in_parts = in_pieces(engine)
    options = {"state": "cell", "units": [3, 500], "familiarity": FAMILIARITY, **options}
    counted = []
    found = in_parts.read([tokens], POOLINGS, advance=counted.append, **options)
    expected = engine.read([tokens], POOLINGS, **options)
    assert sum(counted) == len(tokens)
    assert found.unfamiliar.tolist() == expected.unfamiliar.tolist()
    assert found.unit_states[0].shape == expected.unit_states[0].shape
    np.testing.assert_allclose(found.unit_states[0], expected.unit_states[0], atol=close)
    for name in POOLINGS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=close)


def test_a_long_text_has_the_same_values(engine):
    tokens = engine.encode(" ".join(texts_of_many_kinds()) * 2)
    assert len(tokens) > pieces._LONG
    compare(engine, tokens, 3e-3)


def test_what_is_not_forgotten_is_read_again(engine, monkeypatch):
    """A unit counts the letters of this noise; few states are right at first."""
    monkeypatch.setattr(pieces, "_LONG", 100)
    tokens = engine.encode("x" * 500)
    compare(engine, tokens, 3e-3)
    compare(engine, engine.encode(" ".join(texts_of_many_kinds(20))), 3e-3)


def test_short_texts_and_other_requests_are_those_of_the_engine(engine, monkeypatch):
    monkeypatch.setattr(pieces, "_LONG", 30)
    texts = [engine.encode(text) for text in ("It broke.", "I love it. " * 20, "")]
    in_parts = in_pieces(engine)
    found = in_parts.read(texts, ("last",), state="cell", familiarity=FAMILIARITY, units=[1])
    expected = engine.read(texts, ("last",), state="cell", familiarity=FAMILIARITY, units=[1])
    for row in (0, 2):
        np.testing.assert_array_equal(found.last[row], expected.last[row])
        np.testing.assert_array_equal(found.unit_states[row], expected.unit_states[row])
    assert found.unfamiliar.tolist() == expected.unfamiliar.tolist()
    bits = in_parts.read(texts, (), bits=True).bits
    np.testing.assert_array_equal(bits, engine.read(texts, (), bits=True).bits)
