"""Which parameters learn, when, and how fast: discriminative rates, gradual unfreezing.

As in ULMFiT (Howard & Ruder 2018, arXiv 1801.06146), layers nearer to the labels learn faster and
begin sooner.
"""

from dataclasses import dataclass

import torch
from torch import nn

from model.classifiers.heads import Heads
from model.layers.language_model import LanguageModel

from .config import FinetuningConfig


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a rate."""

    name: str
    parameters: list[nn.Parameter]
    factor: float  # of the heads' rate


def parameter_groups(
    model: LanguageModel, heads: Heads, config: FinetuningConfig
) -> list[ParameterGroup]:
    """Return the groups that learn, from the heads down to the embedding.

    The decoder is in the last layer's group if the language model's loss counts, else in none.
    """
    groups = [ParameterGroup("heads", list(heads.parameters()), 1.0)]
    if config.freeze:
        return groups
    depth = len(model.layers)
    parts = [list(layer.parameters()) for layer in reversed(model.layers)]
    if config.lm_weight:
        parts[0] += list(model.decoder.parameters())
    parts.append(list(model.embedding.parameters()))
    names = [f"layer{depth - 1 - index}" for index in range(depth)] + ["embedding"]
    for index, (name, part) in enumerate(zip(names, parts, strict=True)):
        groups.append(
            ParameterGroup(name, part, config.encoder_factor * config.layer_factor**index)
        )
    return groups


def let_learn(
    model: LanguageModel, groups: list[ParameterGroup], config: FinetuningConfig, epoch: int
) -> None:
    """Require gradients of exactly the groups that learn in this epoch, counted from 0."""
    begun = 1 + epoch // config.unfreeze_epochs if config.unfreeze_epochs else len(groups)
    model.requires_grad_(False)
    for group in groups[:begun]:
        for parameter in group.parameters:
            parameter.requires_grad_(True)


def make_optimizer(groups: list[ParameterGroup], weight_decay: float) -> torch.optim.Optimizer:
    """Build AdamW; every group's rate is set before every step."""
    described = [{"params": g.parameters, "factor": g.factor} for g in groups]
    return torch.optim.AdamW(described, lr=0.0, weight_decay=weight_decay, fused=True)
