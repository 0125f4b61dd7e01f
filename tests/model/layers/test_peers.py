"""The cells that the mLSTM is measured against: their mathematics, and how they carry a state."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order, read
from model.inference.weights import LoadedModel, load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.peers import LstmLayer
from model.state import look_up
from tests.support.cells import config_of, random_tokens, whole_and_cut

PEERS = ("gru", "transformer")
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def peer(cell, **changes):
    sizes = {"hidden_size": 16, "embedding_size": 6, "layers": 2, "heads": 2, "context": 7}
    return build_model(config_of(cell, **(sizes | changes)), seed=3).eval()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_lstm_and_gru_are_torchs(cell):
    model = peer(cell).double()
    tokens = random_tokens(3, 20)
    _, state = model.hidden(tokens[:, :8], model.initial_state(3))
    h, state = model.hidden(tokens[:, 8:], state)
    x = model.embedding(tokens.t())
    for index, layer in enumerate(model.layers):
        x, last = getattr(layer, cell)(x)
        last_h, last_c = last if cell == "lstm" else (last, last)
        torch.testing.assert_close(state.features("hidden")[index], last_h[0], **EXACT)
        torch.testing.assert_close(state.features("cell")[index], last_c[0], **EXACT)
    torch.testing.assert_close(h, x[8:], **EXACT)


def transformer_by_hand(model, tokens):
    """Return h [T, H] of one text [T]: whole, head by head, positions as complex numbers."""
    config, T = model.config, len(tokens)
    at = torch.arange(T).double()
    distance = at[:, None] - at  # [T, T]
    seen = (distance >= 0) & (distance <= config.context)
    width = config.hidden_size // config.heads // 2
    angles = torch.outer(at, 10_000.0 ** (-torch.arange(width).double() / width))
    rotations = torch.polar(torch.ones_like(angles), angles)  # [T, D / 2]
    x = model.layers[0].enter(model.embedding(tokens))
    for layer in model.layers:
        q, k, v = (
            p.chunk(config.heads, -1) for p in layer.attend(layer.norm_attention(x)).chunk(3, -1)
        )
        heads = []
        for number in range(config.heads):
            query, key = (torch.complex(*p[number].chunk(2, -1)) * rotations for p in (q, k))
            scores = (query @ key.conj().t()).real / (2 * width) ** 0.5
            heads.append(scores.where(seen, -torch.inf).softmax(-1) @ v[number])
        x = x + layer.attended(torch.cat(heads, -1))
        x = x + layer.narrow(F.gelu(layer.widen(layer.norm_feed(x))))
    return model.layers[-1].norm_output(x)


def test_transformer_equals_its_equations():
    model = peer("transformer").double()
    tokens = random_tokens(2, 30)  # more than two layers of seven positions reach back
    state, parts = model.initial_state(2), []
    for part in tokens.split([3, 1, 9, 17], dim=1):
        h, state = model.hidden(part, state)
        parts.append(h)
    for lane in range(2):
        expected = transformer_by_hand(model, tokens[lane])
        torch.testing.assert_close(torch.cat(parts)[:, lane], expected, **EXACT)
        torch.testing.assert_close(state.features("cell")[-1, lane], expected[-1], **EXACT)


def test_a_transformer_forgets_what_its_layers_do_not_reach():
    model = peer("transformer")
    tokens = random_tokens(1, 40)
    changed = tokens.clone()
    changed[:, :25] = 0
    reach = model.config.layers * model.config.context
    for length, same in ((25 + reach + 1, True), (25 + reach, False)):
        ends = [model(t[:, :length], model.initial_state(1))[0][:, -1] for t in (tokens, changed)]
        assert torch.equal(*ends) == same


@pytest.mark.parametrize(
    ("context", "cuts"),
    [(9, [1, 7, 16]), (300, [1, 199, 300])],  # bf16 would not tell positions beyond 256 apart
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_splitting_a_window_rounds_a_transformer_at_most_otherwise(dtype, context, cuts):
    model = build_model(ModelConfig(cell="transformer", hidden_size=32, context=context), 1, dtype)
    tokens = random_tokens(5, sum(cuts))
    (whole, last), (cut, state) = whole_and_cut(model, tokens, cuts)
    tolerance = 8 * torch.finfo(dtype).eps * whole.abs().max()  # some roundings of a sum's terms
    torch.testing.assert_close(cut, whole, rtol=0, atol=float(tolerance))
    assert (state["count"] == context).all()
    assert torch.equal(state["count"], last["count"])
    assert state["keys"].dtype == state["values"].dtype == state.features("cell").dtype == dtype


def test_a_transformers_matrices_are_drawn_by_their_inputs_and_what_the_stream_adds_up():
    model = peer("transformer", hidden_size=64, layers=3)
    adding = {"attended": 2 * 3, "narrow": 2 * 3}  # two to the stream of each of three layers
    for name, weight in model.layers.named_parameters():
        if weight.ndim == 2:
            variance = 1 / weight.shape[1] / adding.get(name.split(".")[1], 1)
            # five standard errors of an estimated deviation
            tolerance = 5 / (2 * weight.numel()) ** 0.5
            assert float(weight.detach().std()) == pytest.approx(variance**0.5, rel=tolerance), name


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_the_feature_of_a_cell_of_ones_own_is_its_c_if_it_has_one(pooling):
    model = peer("gru", layers=1)
    model.layers[0] = LstmLayer(model.config, 0)
    tokens = random_tokens(1, 9)
    units = range(model.config.hidden_size)
    (values,) = read(model, list(tokens.numpy()), state="cell", units=units).unit_states
    expected = values[-1] if pooling == "last" else values.mean(0)
    (feature,) = features_in_order(model, list(tokens.numpy()), kind=FeatureKind(pooling=pooling))
    np.testing.assert_allclose(feature, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", ["mlstm", "lstm", *PEERS])
def test_a_reset_lane_forgets_even_nan(cell):
    model = peer(cell).double()
    tokens = random_tokens(3, 6)
    _, state = model(tokens, model.initial_state(3))
    broken = state.each(lambda part: part.where(torch.tensor([[False], [True], [True]]), part / 0))
    if cell == "transformer":
        broken = type(state)(**{**broken.tensors(), "count": state["count"]})
    mixed, _ = model(tokens, broken.reset(torch.tensor([True, False, True])))
    torch.testing.assert_close(mixed[::2], model(tokens, model.initial_state(3))[0][::2], **EXACT)
    torch.testing.assert_close(mixed[1], model(tokens, state)[0][1], **EXACT)


@pytest.mark.parametrize("cell", PEERS)
@pytest.mark.parametrize(
    "kind", [FeatureKind(), FeatureKind(pooling=("last", "mean"), layers="all")]
)
def test_features_do_not_depend_on_the_batch(cell, kind):
    model = peer(cell)
    sequences = [
        row[:n].numpy() for row, n in zip(random_tokens(6, 30), (1, 30, 9, 0, 17, 8), strict=True)
    ]
    together = features_in_order(model, sequences, kind=kind, batch_size=6)
    alone = features_in_order(model, sequences, kind=kind, batch_size=1)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5 * np.abs(alone).max())
    hidden = features_in_order(model, sequences, kind=FeatureKind(state="hidden"))
    np.testing.assert_allclose(
        together[:, -16:] if kind == FeatureKind() else hidden, hidden, atol=1e-5
    )
    assert not together[3].any()
    assert len({row.tobytes() for row in together}) == 6


@pytest.mark.parametrize("cell", PEERS)
def test_units_are_traced_and_held(cell, tmp_path):
    model = peer(cell)
    sequence = random_tokens(12).numpy()
    units = range(model.config.hidden_size)
    (values,) = read(model, [sequence], state="cell", units=units).unit_states
    expected = features_in_order(model, [sequence[: n + 1] for n in range(12)])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    loaded = LoadedModel(model, text_profile("openai"), tmp_path)
    clamp = Clamp(unit=5, cell=2.0)
    free = loaded.advance(loaded.initial_state(), [sequence[:1]])
    held = loaded.advance(loaded.initial_state(1, clamp), [sequence[:1]], clamp)
    assert held.features("cell")[-1, 0, 5] == 2.0
    logits = list(map(loaded.next_token, (free, held)))
    assert np.isfinite(logits).all()
    assert np.abs(logits[1] - logits[0]).max() > 1e-3


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("cell", PEERS)
def test_a_saved_peer_is_the_same_model(cell, quantized, tmp_path):
    model = peer(cell)
    save_model(tmp_path, model, text_profile("openai"), {}, quantized=quantized)
    loaded = load_model(tmp_path).model
    assert loaded.config.architecture() == model.config.architecture()
    assert loaded.config.context == (7 if cell == "transformer" else 256)
    for name, tensor in model.state_dict().items():
        tolerance = float(tensor.abs().max()) / 127 if quantized else 0
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=0, atol=tolerance)


T, B = 64, 64  # 4,096 tokens of 4 kinds
CELLS = ("mlstm", "lstm", "gru", "transformer")
EPS = torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_row_counts_how_often_it_is_read(dtype):
    """Added up in bf16, the count would not pass 256; in fp16, not 2,048."""
    table = torch.ones(2, 3, dtype=dtype, requires_grad=True)
    rows = look_up(torch.ones(T, B, dtype=torch.int64), table)
    assert (rows.shape, rows.dtype) == ((T, B, 3), dtype)
    (gradient,) = torch.autograd.grad(rows.sum(dtype=torch.float32), table)
    assert gradient.tolist() == [[0.0] * 3, [T * B] * 3]


def gradient_of_embedding(cell, vocabulary_size, dtype):
    shape = {"hidden_size": 8, "embedding_size": 6, "vocabulary_size": vocabulary_size, "heads": 2}
    model = build_model(config_of(cell, **shape), seed=0, compute_dtype=dtype)
    tokens = torch.randint(0, 4, (T + 1, B), generator=torch.Generator().manual_seed(1))
    cost, _ = model.loss(tokens[:-1].t(), tokens[1:].t(), model.initial_state(B))
    cost.backward()
    return model.embedding.weight.grad.double()


@pytest.mark.parametrize(
    ("cell", "vocabulary_size"),
    [*((cell, 256) for cell in CELLS), ("mlstm", 1025)],  # too many rows for a table of products
)
def test_the_gradient_is_that_of_fp32_but_for_rounding(cell, vocabulary_size):
    exact = gradient_of_embedding(cell, vocabulary_size, torch.float32)
    rounded = gradient_of_embedding(cell, vocabulary_size, torch.bfloat16)
    assert (rounded - exact).norm() < 8 * EPS * exact.norm()
