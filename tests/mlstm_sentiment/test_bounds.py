"""Bounds stand next to the types of settings; one check refuses values outside, in one line."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest

from mlstm_sentiment.bounds import (
    Bound,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)
from mlstm_sentiment.errors import InputError


@dataclass
class Settings:
    """Bounds by themselves, in a union, in a tuple; and fields without one."""

    batch_size: PositiveInt = 1
    steps: PositiveInt | None = None
    rate: PositiveFloat = 1.0
    decay: NonNegativeFloat = 0.0
    dropout: Fraction = 0.0
    seed: Annotated[int, Bound(min=0, below=2**32)] = 0
    seconds: Annotated[float, Bound(above=0, max=1e6)] = 1.0
    sizes: tuple[PositiveInt, ...] = ()
    free: float = -1.0
    name: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    "inside",
    [
        {"steps": 1, "sizes": (1, 2), "seed": 2**32 - 1, "seconds": 1e6},
        {"dropout": 0.0, "decay": 1e300},
        {"batch_size": np.int64(3), "rate": np.float32(0.5)},
        {"rate": 2},
    ],
)
def test_values_within_the_bounds_pass(inside):
    check_bounds(Settings(**inside))


@pytest.mark.parametrize(
    ("outside", "line"),
    [
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"steps": -1}, "steps is -1; it must be at least 1"),
        ({"steps": 1.5}, "steps is 1.5; it must be a whole number, at least 1"),
        ({"rate": 0.0}, "rate is 0.0; it must be above zero"),
        ({"decay": -0.5}, "decay is -0.5; it must be at least zero"),
        ({"dropout": 1}, "dropout is 1; it must be at least zero and below 1"),
        ({"seed": 2**32}, "seed is 4294967296; it must be at least zero and below 2^32"),
        ({"seconds": 2e6}, "seconds is 2000000.0; it must be above zero and at most 1,000,000"),
        ({"sizes": (3, 0)}, "sizes is (3, 0); it must be at least 1"),
        ({"rate": "x"}, "rate is 'x'; it must be a number, above zero"),
        ({"batch_size": None}, "batch_size is None; it must be a number, at least 1"),
        ({"free": float("nan")}, "free is nan; it must be finite"),
        ({"rate": float("inf")}, "rate is inf; it must be finite"),
    ],
)
def test_values_outside_the_bounds_are_refused_by_name(outside, line):
    with pytest.raises(InputError) as error:
        check_bounds(Settings(**outside))
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("section", "name"), [("data.", "data.batch_size"), ("--", "--batch-size")]
)
def test_a_setting_has_the_name_that_its_user_gave_it(section, name):
    with pytest.raises(InputError, match=f"^{name} is 0; "):
        check_bounds(Settings(batch_size=0), section)
