"""Average networks that tune.py trained from the same weights, and their heads.

python -m experiments.everyday_english.average runs/tuned runs/tuned_1 --output runs/mean
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from configs import command
from data_utils.provenance import describe_origin
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from model.inference.weights import load_model, save_model


@dataclass(frozen=True)
class Options:
    """Write the mean network, fit.npz and fit.json, as tune.py does."""

    folders: Annotated[tuple[Path, ...], Argument(positional=True)]
    """What tune.py wrote, each time from the same weights and the same fit."""
    output: Path
    """The folder to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    models = [load_model(folder, compute_dtype=torch.float32) for folder in options.folders]
    states = [loaded.model.state_dict() for loaded in models]
    mean = {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}
    origin = describe_origin()
    provenance = {"mean_of": [dict(loaded.provenance) for loaded in models], **origin}
    first = models[0]
    save_model(
        options.output, first.model, first.profile, provenance,
        tokenizer=first.tokenizer, weights=mean,
    )  # fmt: skip
    np.savez(options.output / "fit.npz", allow_pickle=False, **mean_fit(options.folders))
    settings = [read_json(folder / "fit.json")["options"] for folder in options.folders]
    write_json(options.output / "fit.json", {"options": settings, "origin": origin}, "a result")


def mean_fit(folders: Sequence[Path]) -> dict[str, np.ndarray]:
    """Return the mean of heads that standardize alike."""
    fits = [dict(np.load(folder / "fit.npz")) for folder in folders]
    for name in ("center", "scale"):
        assert all(np.array_equal(fit[name], fits[0][name]) for fit in fits), name
    return {name: np.mean([fit[name] for fit in fits], axis=0) for name in fits[0]}


if __name__ == "__main__":
    command.run(main)
