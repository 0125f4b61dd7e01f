"""FusedAdam and FusedLAMB of NVIDIA's apex, for users who have it installed and ask for it.

`apex` on PyPI is another project, a web authentication toolkit of 2013, and fails to import in many
ways. It is recognised by the modules of NVIDIA's apex that it lacks.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mlstm_sentiment.errors import InputError

from .lamb import EPSILON

DEVICE = "cuda"  # its kernels exist only for these
_BUILD = (
    "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 pip install --no-build-isolation "
    "git+https://github.com/NVIDIA/apex"
)


def make_fused(
    name: str, parameters: Sequence[nn.Parameter], settings: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """Build apex's version of adam, adamw or lamb: the same update, in a few kernels.

    settings: betas and weight_decay.
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
        eps=EPSILON,
        bias_correction=False,
        max_grad_norm=math.inf,  # optim.clip_norm does that
        use_nvlamb=True,  # steps in proportion to norms also without weight decay
    )


def _load_optimizers_of_apex() -> Any:
    """Import NVIDIA's apex.optimizers; if that fails, InputError says what is installed instead."""
    try:
        applier = import_module("apex.multi_tensor_apply").multi_tensor_applier
        optimizers = import_module("apex.optimizers")
    except Exception as error:  # PyPI's apex fails with errors of any kind
        raise InputError(_what_is_wrong(error)) from error
    if not applier.available:
        raise InputError(
            f"optim.fused apex: NVIDIA's apex is there, but built without its kernels; {_BUILD}"
        )
    return optimizers


def _what_is_wrong(error: Exception) -> str:
    folders = _folders()
    if folders is None:
        return (
            f"optim.fused apex: NVIDIA's apex is not installed. Build it ({_BUILD}), or set "
            "optim.fused torch; not pip install apex, which is another project"
        )
    if any((folder / "multi_tensor_apply").is_dir() for folder in folders):
        return f"optim.fused apex: NVIDIA's apex in {folders[0]} does not import ({error})"
    place = f" in {folders[0]}" if folders else ""
    return (
        f"optim.fused apex: the package apex{place} is not NVIDIA's but the unrelated web "
        f"authentication toolkit of that name on PyPI; pip uninstall apex, then {_BUILD}"
    )


def _folders() -> list[Path] | None:
    """Return the folders of the package apex without importing it; None if there is none."""
    module = sys.modules.get("apex")
    if module is not None:
        places = getattr(module, "__path__", [])
    elif (spec := find_spec("apex")) is not None:
        places = spec.submodule_search_locations or []
    else:
        return None
    folders = [Path(place) for place in places]
    packages = [folder for folder in folders if (folder / "__init__.py").exists()]
    return None if folders and not packages else packages  # any folder named apex would be found
