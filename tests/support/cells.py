"""Configs of every cell from one set of settings."""

from typing import Any

from model.language_model import LAYERS, ModelConfig


def config_of(cell: str, **settings: Any) -> ModelConfig:
    """Return the cell's config, without those settings that only other cells have."""
    others = set().union(*(layer.described_by for layer in LAYERS.values()))
    others -= LAYERS[cell].described_by
    own = {name: value for name, value in settings.items() if name not in others}
    return ModelConfig(cell=cell, **own)
