"""Which implementation computes a model: the engine on a CPU, PyTorch on a GPU and for peers."""

import logging
from pathlib import Path
from typing import Annotated, Literal, get_args

from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.cores import usable_cores
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.engine.stored import CELL, open_model, read_weights
from mlstm_sentiment.errors import InputError

from ..kernels.cores import multiplies_fast
from ..layers.config import Precision as TorchPrecision

_log = logging.getLogger(__name__)

Device = Annotated[
    str,
    Argument(group="model", help="Where it runs: cpu, cuda, cuda:1, mps, or auto: a GPU, if any."),
]
Precision = Annotated[
    Literal["exact", "fast", "fp32", "bf16", "fp16"],
    Argument(
        group="model",
        help="How products are rounded. On a CPU, exact, within a thousandth of fp32, or fast, "
        "and results change a little; PyTorch computes fp32, bf16 and fp16, and on a GPU exact is "
        "fp32.",
    ),
]


def load_text_model(
    name_or_folder: str | Path,
    *,
    device: str = "auto",
    precision: str = "exact",
    threads: int | None = None,
) -> TextModel:
    """Load a model as the scripts do.

    The engine runs an mLSTM on a CPU in its own precisions, "exact" and "fast". PyTorch runs all
    else: "fp32", "bf16" and "fp16", a GPU, and other cells, where "exact" means fp32. threads: of
    the engine; None: as many as there are cores for this process. Raises InputError for what
    neither can do.
    """
    opened = open_model(name_or_folder)
    of_torch = precision in get_args(TorchPrecision)
    may_be_engine = opened.architecture.cell == CELL and not of_torch
    on_cpu = device == "cpu"
    if may_be_engine and not on_cpu:
        from .devices import choose_device  # with torch

        on_cpu = choose_device(device).type == "cpu"
    if may_be_engine and on_cpu:
        threads = usable_cores() if threads is None else threads
        return Engine(read_weights(opened), precision, threads)  # type: ignore[arg-type]
    if threads is not None:
        raise InputError(
            f"threads {threads}: is for a model that PyTorch does not compute; leave it out, or "
            "set OMP_NUM_THREADS"
        )
    if not of_torch and precision != "exact":
        raise InputError(
            f"precision {precision} is not for this model and device; take exact, bf16 or fp16"
        )
    from .weights import load_model

    loaded = load_model(opened, device=device)
    loaded.model.set_precision(precision if of_torch else "fp32")
    if not multiplies_fast(loaded.model.dtype, loaded.model.embedding.weight.device):
        _log.warning("precision %s: slow on this hardware; fp32 is faster", precision)
    return loaded
