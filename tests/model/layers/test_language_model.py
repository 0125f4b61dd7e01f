"""The model around the recurrence."""

from typing import get_args

import pytest
import torch

from mlstm_sentiment.engine.architecture import Cell
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, build_model, parameter_count
from model.layers.mlstm import apply_weight_norm
from tests.support.cells import config_of

# targets: one bias and weight-norm gains, as OpenAI's released model has them
PUBLISHED_COUNTS = {64: 74_880, 256: 495_360, 1024: 5_863_680, 4096: 86_319_360}


@pytest.mark.parametrize(("hidden_size", "count"), PUBLISHED_COUNTS.items())
def test_parameter_count_is_the_published_one(hidden_size, count):
    assert parameter_count(ModelConfig(hidden_size=hidden_size)) == count


@pytest.mark.parametrize("cell", get_args(Cell))
def test_tokens_one_by_one_equal_a_window(cell):
    model = build_model(config_of(cell, hidden_size=16, layers=2, context=5), seed=1).double()
    tokens = torch.randint(0, 256, (4, 9), generator=torch.Generator().manual_seed(0))
    whole, last = model(tokens, model.initial_state(4))
    state, weights = model.initial_state(4), model.prepare_weights()
    for t in range(9):
        logits, state = model(tokens[:, t : t + 1], state, weights)
        torch.testing.assert_close(logits[:, 0], whole[:, t], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.tensors(), last.tensors(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("cell", get_args(Cell))
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_state_of_another_number_of_lanes_is_refused(cell, backend, lanes):
    # torch's LSTM wrote beyond a smaller state, the reference read all rows from a single lane's.
    model = build_model(config_of(cell, hidden_size=8, layers=2, backend=backend), seed=1)
    tokens = torch.zeros(3, 5, dtype=torch.long)
    with pytest.raises(ValueError, match=rf"3 rows, the state has {lanes} lanes; .*\(3\) fits"):
        model(tokens, model.initial_state(lanes))


@pytest.mark.parametrize("cell", get_args(Cell))
def test_tokens_are_whole_numbers_of_any_dtype(cell):
    model = build_model(config_of(cell, hidden_size=8), seed=1)
    tokens = torch.randint(0, 256, (2, 7), generator=torch.Generator().manual_seed(0))
    expected, _ = model(tokens, model.initial_state(2))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        logits, _ = model(tokens.to(dtype), model.initial_state(2))
        assert torch.equal(logits, expected)
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(TypeError, match=f"tokens are {dtype}; they must be whole numbers"):
            model(tokens.to(dtype), model.initial_state(2))
    for size in ((2, 0), (2,), (2, 2, 3)):
        with pytest.raises(ValueError, match=r"tokens are \[.*; they must be \[B, T\], T at least"):
            model(torch.zeros(size, dtype=torch.long), model.initial_state(2))


@pytest.mark.parametrize("shape", [(40, 10), (10, 10)])
def test_weight_norm_has_the_gradient_of_its_formula(shape):
    v, g, upstream = (torch.randn(*size, dtype=torch.double) for size in (shape, shape[:1], shape))
    v, g = v.requires_grad_(), g.requires_grad_()
    expected = v / v.square().sum(1, keepdim=True).sqrt() * g[:, None]
    w = apply_weight_norm(v, g)
    torch.testing.assert_close(w, expected, rtol=1e-14, atol=1e-14)
    ours, by_formula = (torch.autograd.grad(out, (v, g), upstream) for out in (w, expected))
    torch.testing.assert_close(ours, by_formula, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(apply_weight_norm(v, g), w.detach(), rtol=1e-14, atol=1e-14)


def test_a_pruned_unit_has_no_gradient_and_harms_no_other():
    model = build_model(ModelConfig(hidden_size=6, embedding_size=4), seed=0)
    layer = model.layers[0]
    with torch.no_grad():
        layer.w_mh[2] = 0.0
    tokens = torch.randint(0, 256, (2, 9), generator=torch.Generator().manual_seed(0))
    logits, _ = model(tokens, model.initial_state(2))
    with torch.no_grad():
        assert torch.allclose(logits, model(tokens, model.initial_state(2))[0], atol=1e-6)
        (weights,) = model.prepare_weights().layers
    assert not weights.recurrent.w_mh[2].any()
    logits.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert not layer.w_mh.grad[2].any()
    assert layer.w_mh.grad[3].any()


@pytest.mark.parametrize("cell", get_args(Cell))
def test_every_parameter_learns(cell):
    model = build_model(ModelConfig(cell=cell, hidden_size=8, layers=2), seed=1)
    logits, _ = model(torch.arange(20).view(4, 5), model.initial_state(4))
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_an_mlstm_starts_uniform_the_gain_is_the_norm_and_global_generators_stay(monkeypatch):
    H = 16
    layer = build_model(ModelConfig(hidden_size=H, embedding_size=8), seed=1).layers[0]
    for drawn in (layer.w_x, layer.w_mx, layer.b, layer.w_mh, *layer.w_h.split(H)):
        assert 0.9 * H**-0.5 < drawn.abs().max() <= H**-0.5
    for name in ("x", "h", "mx", "mh"):
        gain, weight = layer.get_parameter(f"g_{name}"), layer.get_parameter(f"w_{name}")
        torch.testing.assert_close(gain, weight.norm(dim=1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("GPUs were seeded"))
    build_model(ModelConfig(hidden_size=6), seed=9)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("cell", get_args(Cell))
def test_a_model_made_directly_has_the_weights_that_its_seed_draws(cell):
    config = config_of(cell)
    torch.manual_seed(7)
    direct, built = LanguageModel(config).state_dict(), build_model(config, seed=7).state_dict()
    assert direct.keys() == built.keys()
    for name, value in built.items():
        assert torch.equal(direct[name], value), name
    other = build_model(config, seed=8).state_dict()
    assert not torch.equal(other["embedding.weight"], direct["embedding.weight"])


@pytest.mark.parametrize("cell", ["mlstm", "lstm", "gru"])
def test_the_forget_gate_bias_is_added_to_the_forget_gate(cell):
    """It is the second gate; torch has two biases for each, which add up."""
    plain, biased = (
        build_model(ModelConfig(cell=cell, hidden_size=4, forget_gate_bias=bias), seed=1).layers[0]
        for bias in (0.0, 1.0)
    )
    names = ["b"] if cell == "mlstm" else [f"{cell}.bias_ih_l0", f"{cell}.bias_hh_l0"]
    added = sum(biased.get_parameter(name) - plain.get_parameter(name) for name in names)
    expected = torch.zeros(12 if cell == "gru" else 16)
    expected[4:8] = 1.0
    torch.testing.assert_close(added.detach(), expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": 0}, r"model\.hidden_size is 0"),
        ({"hidden_size": (8,)}, r"model\.hidden_size is \(8,\); it must be a number"),
        ({"layers": 0}, r"model\.layers is 0"),
        ({"embedding_size": 2.5}, r"model\.embedding_size is 2\.5"),
        ({"forget_gate_bias": 1e39}, r"model.forget_gate_bias is 1e.39; it must be at least -100"),
        ({"backend": "refrence"}, r"model\.backend is 'refrence'; known: auto, reference"),
        (
            {"cell": "lstm", "backend": "cpp"},
            r"model\.backend cpp computes the recurrence of an mLSTM",
        ),
        ({"cell": "transformer", "heads": 3, "hidden_size": 16}, "3 heads needs a multiple"),
        ({"cell": "transformer", "heads": 16, "hidden_size": 16}, "16 heads needs a multiple"),
        ({"heads": 2}, r"cell mlstm does not have; .* or set model.cell transformer$"),
        ({"cell": "gru", "context": 3}, r"cell gru does not have; .* set model.cell transformer$"),
    ],
)
def test_a_config_out_of_bounds_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ModelConfig(**fields)
