"""A model that knows enough English to show which gate order is right."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.transfer.published.layouts import from_model
from transfer.published.imports import FRAME, PLAIN_ENGLISH


@pytest.fixture(scope="package")
def learnt():
    """A model that has memorised the text of the plausibility check, in a second."""
    torch.set_num_threads(1)
    model = build_model(ModelConfig(hidden_size=48, embedding_size=12), seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    texts = [FRAME + text.encode()[:140] for text in PLAIN_ENGLISH]
    tokens = torch.from_numpy(np.stack([np.frombuffer(t, np.uint8) for t in texts]).astype(int))
    for _ in range(60):
        logits, _ = model(tokens[:, :-1], model.initial_state(len(tokens)))
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return from_model(model)
