"""FusedAdam and FusedLAMB of NVIDIA's apex, for users who have it installed and ask for it."""

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import nn

from mlstm_sentiment.errors import InputError

DEVICE = "cuda"  # its kernels exist only for these
_BUILD = (
    "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 pip install --no-build-isolation "
    "git+https://github.com/NVIDIA/apex"
)


def make_fused(
    name: str, parameters: Sequence[nn.Parameter], settings: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """Build apex's version of adam, adamw or lamb: the same update, in a few kernels.

    settings: betas and weight_decay, and eps of lamb.
    Raises InputError if NVIDIA's apex, its kernels or a GPU is missing.
    """
    optimizers = _load_optimizers_of_apex()
    if parameters[0].device.type != DEVICE:
        raise InputError(
            f"optim.fused apex needs a GPU, the model is on {parameters[0].device.type}; "
            "set optim.fused torch"
        )
    if name != "lamb":
        return optimizers.FusedAdam(parameters, lr=0.0, adam_w_mode=name == "adamw", **settings)
    return optimizers.FusedLAMB(
        parameters,
        lr=0.0,
        **settings,
        bias_correction=False,
        max_grad_norm=math.inf,  # optim.clip_norm does that
        use_nvlamb=True,  # steps in proportion to norms also without weight decay
    )


def _load_optimizers_of_apex() -> Any:
    """Import NVIDIA's apex.optimizers; InputError if that fails: PyPI's apex is another project."""
    try:
        applier = import_module("apex.multi_tensor_apply").multi_tensor_applier
        optimizers = import_module("apex.optimizers")
    except Exception as error:  # PyPI's apex, a web authentication toolkit, fails in many ways
        raise InputError(
            f"optim.fused apex: NVIDIA's apex does not import ({' '.join(str(error).split())}). "
            f"Build it ({_BUILD}), or set optim.fused torch; the package apex on PyPI is another "
            "project (pip uninstall apex)"
        ) from error
    if not applier.available:
        raise InputError(
            f"optim.fused apex: NVIDIA's apex is there, but built without its kernels; {_BUILD}"
        )
    return optimizers
