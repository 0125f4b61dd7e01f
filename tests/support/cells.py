"""Configs of every cell from one set of settings, and what holds for several cells."""

from typing import Any

import torch
from torch import Tensor

from mlstm_sentiment.engine.architecture import _OF_TRANSFORMERS
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel
from model.state import State


def config_of(cell: str, **settings: Any) -> ModelConfig:
    """Return the cell's config, without those settings that only other cells have."""
    others = () if cell == "transformer" else _OF_TRANSFORMERS
    own = {name: value for name, value in settings.items() if name not in others}
    return ModelConfig(cell=cell, **own)


def random_tokens(*shape: int) -> Tensor:
    """Return random bytes, the same for the same shape."""
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(2))


Read = tuple[Tensor, State]  # logits [B, T, V], and the state after them


def whole_and_cut(model: LanguageModel, tokens: Tensor, cuts: list[int]) -> tuple[Read, Read]:
    """Read tokens [B, T] in one window, and in several of these lengths."""
    zero = model.initial_state(len(tokens))
    with torch.no_grad():
        whole, state, parts = model(tokens, zero), zero, []
        for part in tokens.split(cuts, dim=1):
            logits, state = model(part, state)
            parts.append(logits)
    return whole, (torch.cat(parts, dim=1), state)
