"""Which implementation computes a model: the engine on a CPU, PyTorch on a GPU and for peers."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.architecture import Architecture
from mlstm_sentiment.engine.engine import Engine, check_precision
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE, find_model
from mlstm_sentiment.files.storage import read_json

from ..layers.config import Precision as TorchPrecision

Device = Annotated[
    str,
    Argument(group="model", help="Where it runs: cpu, cuda, cuda:1, mps, or auto: a GPU, if any."),
]
Precision = Annotated[
    Literal["exact", "fast", "fp32", "bf16", "fp16"],
    Argument(
        group="model",
        help="How products are rounded. On a CPU, exact, as close as fp32, or fast, up to twice as "
        "fast; PyTorch computes fp32, bf16 and fp16, and on a GPU exact is fp32.",
    ),
]


def load_text_model(
    name_or_folder: str | Path,
    *,
    device: str = "auto",
    precision: str = "exact",
    threads: int = 1,
) -> TextModel:
    """Load a model as the scripts do.

    The engine runs an mLSTM on a CPU in its own precisions, "exact" and "fast". PyTorch runs all
    else: "fp32", "bf16" and "fp16", a GPU, and other cells, where "exact" means fp32. threads: of
    the engine. Raises InputError for what neither can do.
    """
    folder = find_model(name_or_folder)
    path = folder / CONFIG_FILE
    is_mlstm = Architecture.read(read_json(path), path).cell == "mlstm"
    of_torch = precision in get_args(TorchPrecision)
    if not of_torch:
        check_precision(precision)
    if is_mlstm and not of_torch and device == "cpu":
        return Engine.load(folder, precision=precision, threads=threads)  # type: ignore[arg-type]

    from .devices import choose_device
    from .weights import load_model

    chosen = choose_device(device)
    if is_mlstm and not of_torch and chosen.type == "cpu":
        return Engine.load(folder, precision=precision, threads=threads)  # type: ignore[arg-type]
    if precision == "fast":
        raise InputError("precision fast is for an mLSTM on a CPU; otherwise take bf16 or fp16")
    loaded = load_model(folder, device=chosen)
    loaded.model.set_precision(precision if of_torch else "fp32")
    return loaded
