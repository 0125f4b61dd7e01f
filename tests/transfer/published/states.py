"""The states and logits of an imported model, compared with those of the mathematics."""

import numpy as np
import torch

TEXT = np.frombuffer(b"\n What a lovely, sturdy \xc3\xa9tui. ", dtype=np.uint8)


def read(model, text=TEXT):
    tokens = torch.from_numpy(text.astype(np.int64))[None]
    with torch.inference_mode():
        logits, state = model(tokens, model.initial_state(1))
    return state.c[-1, 0].numpy(), logits[0].numpy()


def assert_same(model, language, tolerance=2e-5):
    """Assert that our model has the states and logits of the mathematics."""
    _, cells, logits = language.read(TEXT)
    cell, scores = read(model)
    np.testing.assert_allclose(cell, cells[-1], atol=tolerance)
    np.testing.assert_allclose(scores, logits, atol=10 * tolerance)
