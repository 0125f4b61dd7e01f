"""Texts to features with a gradient: a text's result does not depend on its batch."""

import numpy as np
import pytest
import torch

from model.inference.features import features_in_order
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.support.cells import config_of
from transfer.finetuning.encoder import encode

LENGTHS = (9, 0, 31, 1, 9, 17, 2)


@pytest.fixture
def sequences():
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, size=n).astype(np.uint8) for n in LENGTHS]


@pytest.fixture(params=["mlstm", "gru", "transformer"])
def wide_model(request):
    """A model in fp64, of two layers, an mLSTM computed by the equations under autograd."""
    sizes = {"hidden_size": 8, "embedding_size": 4, "layers": 2, "context": 12}
    config = config_of(request.param, backend="reference", **sizes)
    return emphatic(build_model(config, seed=3)).double()


def alone(model, sequence, window):
    """Read one text token by token; return its features."""
    state = model.initial_state(1)
    start = max(len(sequence) - window, 0)
    for place, token in enumerate(sequence.astype(np.int64)):
        before = state.detach() if place == start else state
        _, state = model(torch.tensor([[token]]), before)
        state = state.detach() if place < start else state
    return state.features("cell")[-1, 0]


def gradients(model, loss):
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("window", [100, 8])
def test_features_and_gradients_are_those_of_each_text_alone(wide_model, sequences, window):
    encoded = encode(sequences, wide_model, window)
    features = torch.stack([alone(wide_model, sequence, window) for sequence in sequences])
    torch.testing.assert_close(encoded, features, rtol=1e-12, atol=1e-12)
    weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(0)).double()
    actual = gradients(wide_model, (encoded * weights).sum())
    expected = gradients(wide_model, (features * weights).sum())
    learning = {name for name, _ in wide_model.named_parameters() if "decoder" not in name}
    assert set(actual) == set(expected) == learning
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.parametrize("window", [100, 8])
def test_features_are_those_that_classify_reads(small_model, sequences, window):
    encoded = encode(sequences, small_model, window).detach().numpy()
    features = features_in_order(small_model, sequences)
    np.testing.assert_allclose(encoded, features, rtol=0, atol=1e-5 * np.abs(features).max())
