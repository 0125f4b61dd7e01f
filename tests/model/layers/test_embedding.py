"""The gradient of the embedding in 16 bits: the same tokens come thousands of times in a window."""

import pytest
import torch

from model.layers.language_model import build_model
from model.state import look_up
from tests.support.cells import config_of

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
