"""Give a trained mLSTM twice the units without changing what it computes (Net2Net).

Chen et al. 2016 (arXiv 1511.05641), for the mLSTM with weight norm.
"""

from dataclasses import replace

import torch
from torch import Tensor

from model.errors import InputError
from model.language_model import LanguageModel, build_model

GATES = 4  # of w_h, w_x and b, one below the other


def widened(model: LanguageModel, seed: int) -> LanguageModel:
    """Return an mLSTM of one layer with 2 H units that computes the same as one with H.

    Each unit has a twin, which reads the same sums from other weights. Each weight on a unit is
    split between the twins at random, so that training drives the two apart. Raises InputError for
    another architecture.
    """
    config = model.config
    if config.cell != "mlstm" or config.layers != 1 or not config.weight_norm:
        raise InputError("only an mLSTM of one layer with weight norm can be widened")
    draw = torch.Generator().manual_seed(seed)
    wide = build_model(replace(config, hidden_size=2 * config.hidden_size), seed=seed)
    given = model.state_dict()
    found = dict(given)
    for name, blocks in (("x", GATES), ("h", GATES), ("mx", 1), ("mh", 1)):
        weight, gain = f"layers.0.w_{name}", f"layers.0.g_{name}"
        narrow = given[weight]
        rows = twice(narrow, blocks)
        found[weight] = shared(rows, draw) if name in ("h", "mh") else rows
        # w = g v / ||v||: the part of w that a row keeps has the same direction as that of v.
        ratio = found[weight].norm(dim=1) / rows.norm(dim=1)
        found[gain] = twice(given[gain], blocks) * ratio
    found["layers.0.b"] = twice(given["layers.0.b"], GATES)
    found["decoder.weight"] = shared(given["decoder.weight"], draw)
    wide.load_state_dict(found)
    return wide


def twice(rows: Tensor, blocks: int) -> Tensor:
    """Repeat each of the blocks of rows: [blocks * H, ...] becomes [blocks * 2 H, ...]."""
    return torch.cat([part.repeat(2, *[1] * (rows.dim() - 1)) for part in rows.chunk(blocks)])


def shared(weights: Tensor, draw: torch.Generator) -> Tensor:
    """Split weights [rows, H] on units between the units and their twins, [rows, 2 H]."""
    share = torch.rand(weights.shape, generator=draw).to(weights)
    return torch.cat([weights * share, weights * (1 - share)], dim=1)
