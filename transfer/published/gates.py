"""Gate orders, and building our model from tensors whose gates are in another order.

A tensor here is already named and laid out as in `LanguageModel.state_dict()`, [out, in]; only the
four blocks of its gates may be in another order.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor

from model.kernels.process import follow_quota
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel

GateOrder = Literal["ifou", "ifuo"]
GATE_ORDERS: tuple[GateOrder, ...] = get_args(GateOrder)
OURS: GateOrder = "ifuo"
_GATED = {"w_x", "w_h", "g_x", "g_h", "b"}  # of a layer: what has one block of rows per gate


def _reorder(tensors: Mapping[str, Tensor], order: GateOrder) -> dict[str, Tensor]:
    """Bring the gates from `order` into ours."""
    if order == OURS:
        return dict(tensors)
    return {
        name: _exchange(tensor) if name.split(".")[-1] in _GATED else tensor
        for name, tensor in tensors.items()
    }


def _exchange(tensor: Tensor) -> Tensor:
    first, second, third, fourth = tensor.chunk(4)
    return torch.cat([first, second, fourth, third])


def assemble(tensors: Mapping[str, Tensor], order: GateOrder) -> LanguageModel:
    """Build the model from a complete set of tensors, whose shapes have been checked."""
    follow_quota()
    hidden_size, input_size = tensors["layers.0.w_mx"].shape
    config = ModelConfig(
        hidden_size=hidden_size,
        embedding_size=input_size,
        layers=sum(name.endswith(".w_mh") for name in tensors),
        weight_norm="layers.0.g_mh" in tensors,
    )
    with torch.device("meta"):
        model = LanguageModel(config)
    model.load_state_dict(_reorder(tensors, order), assign=True)
    return model.eval()
