"""Which parameters learn, when, and how fast: discriminative rates, gradual unfreezing.

Howard & Ruder 2018 (ULMFiT, arXiv 1801.06146): the nearer to the labels, the faster a layer learns
and the sooner it begins.
"""

from dataclasses import dataclass

import torch
from torch import nn

from model.classifiers.heads import Heads
from model.language_model import LanguageModel

from .config import FinetuningConfig


@dataclass(frozen=True)
class Group:
    """Parameters that share a rate."""

    name: str
    parameters: list[nn.Parameter]
    factor: float  # of the heads' rate


def groups_of(model: LanguageModel, heads: Heads, config: FinetuningConfig) -> list[Group]:
    """Return what learns, from the heads down to the embedding.

    The decoder learns with the last layer where the language model's loss counts, else not at all.
    """
    groups = [Group("heads", list(heads.parameters()), 1.0)]
    if config.freeze:
        return groups
    depth = len(model.layers)
    parts = [list(layer.parameters()) for layer in reversed(model.layers)]
    if config.lm_weight:
        parts[0] += list(model.decoder.parameters())
    parts.append(list(model.embedding.parameters()))
    names = [f"layer{depth - 1 - index}" for index in range(depth)] + ["embedding"]
    for index, (name, part) in enumerate(zip(names, parts, strict=True)):
        groups.append(Group(name, part, config.encoder_factor * config.layer_factor**index))
    return groups


def let_learn(
    model: LanguageModel, groups: list[Group], config: FinetuningConfig, epoch: int
) -> None:
    """Let the groups that have begun by this epoch, counted from 0, take gradients; no others."""
    begun = 1 + epoch // config.unfreeze_epochs if config.unfreeze_epochs else len(groups)
    model.requires_grad_(False)
    for group in groups[:begun]:
        for parameter in group.parameters:
            parameter.requires_grad_(True)


def make_optimizer(groups: list[Group], weight_decay: float) -> torch.optim.Optimizer:
    """Build AdamW; every group's rate is set anew before every step."""
    described = [{"params": g.parameters, "factor": g.factor} for g in groups]
    return torch.optim.AdamW(described, lr=0.0, weight_decay=weight_decay, fused=True)
