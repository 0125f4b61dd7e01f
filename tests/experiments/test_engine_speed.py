"""The engine's benchmark: what it counts, and the memory that it measures."""

import sys

import pytest

from experiments.speed.engine import first_answer, of_peak, ratios
from mlstm_sentiment.engine.engine import Engine


def test_ratios_are_to_torch_with_and_without_bits():
    seconds = {"torch fp32": 8, "torch fp32, bits": 12, "engine": 2, "engine, bits": 3}
    timed = {name: {"median": value} for name, value in seconds.items()}
    assert ratios(timed) == {
        "torch fp32": 1,
        "torch fp32, bits": 1,
        "engine": 4,
        "engine, bits": 4,
    }


def test_products_are_counted_once_for_each_part():
    tokens = len(Engine.load("default_small").encode("so good"))
    products = 5 * 512 * (2 * 512 + 64) * tokens  # of one text
    timed = {"engine amx exact": {"median": 1000 * products / 1e9}}  # for 1,000 texts
    assert of_peak("default_small", ["so good"], timed, {"amx": 4}) == {
        "amx exact": pytest.approx(0.25)
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_first_answer_takes_little_memory():
    assert first_answer("default")["peak_mib"] < 80
