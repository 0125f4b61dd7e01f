"""Implementations of the recurrence by name: what they compute, and why some are refused."""

from functools import partial
from typing import get_args

import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.inference.weights import load_model
from model.layers.config import Backend
from model.layers.recurrence import FASTEST_FIRST, REFERENCE, fastest_for, implementation_for, recur
from tests.model.kernels.amx.emulation import emulate_tiles, take_no_tiles
from tests.model.layers.windows import assert_as_reference, scaled_inputs, tolerance

pytestmark = pytest.mark.processor

NAMES = [implementation.name for implementation in (REFERENCE, *FASTEST_FIRST)]
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
T, B, H = 9, 3, 34


def test_every_name_is_in_the_registry_and_auto_takes_the_fastest():
    assert {"auto", "fused", *NAMES} == set(get_args(Backend))
    w_mh = torch.empty(H, H)
    for backend in ("auto", "fused"):
        assert implementation_for(backend, w_mh) is fastest_for(w_mh)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_each_available_name_computes_what_the_reference_computes(name, dtype, monkeypatch):
    emulate_tiles(monkeypatch)
    inputs = scaled_inputs(dtype, T, B, H)
    try:
        assert implementation_for(name, inputs[3]).name == name
    except InputError as refusal:
        pytest.skip(str(refusal))
    limit = 1e-9 if dtype == torch.float64 else tolerance(dtype, T, H)
    assert_as_reference(partial(recur, name), inputs, limit)


@pytest.mark.parametrize(
    ("backend", "dtype", "size", "reason"),
    [
        ("triton", torch.float32, 4, "it needs a CUDA GPU, and the model is on cpu"),
        ("amx", torch.float32, 4, "it multiplies in bfloat16, and the model in float32"),
        ("amx", torch.bfloat16, 4, "this processor has no Intel AMX"),
        ("cpp", torch.bfloat16, 5, "16-bit products take units in pairs, and 5 is odd"),
        ("cpp", torch.float64, 4, "no fast float64 products"),
    ],
)
def test_a_name_that_cannot_run_here_is_refused(monkeypatch, backend, dtype, size, reason):
    take_no_tiles(monkeypatch)
    with pytest.raises(InputError, match=rf"^model.backend {backend} cannot run here: .*{reason}"):
        implementation_for(backend, torch.empty(size, 0, dtype=dtype))


def test_a_model_refuses_a_name_when_it_is_loaded():
    with pytest.raises(InputError, match=r"model\.backend triton cannot run here: it needs a CUDA"):
        load_model("tests/fixtures/v1/run", backend="triton", device="cpu")
    loaded = load_model("tests/fixtures/v1/run", backend="torch", device="cpu")
    assert loaded.model.implementation == "plain torch"
