"""Average networks that tune.py trained from a shipped one, and that one, and their heads.

python -m experiments.everyday_english.average runs/tuned runs/tuned_1 --shares 0.35 0.35 \\
    --output runs/mean

What the shares leave to one goes to the shipped model: it keeps what the training would forget
(Wortsman et al. 2022, arXiv 2109.01903).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from configs import command
from data_utils.provenance import describe_origin
from experiments.everyday_english.ship import fit_of, mixed
from experiments.models.mean import weighted_mean
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.head.head_files import FOLDER, load_head
from model.inference.weights import LoadedModel, load_model, save_model


@dataclass(frozen=True)
class Options:
    """Write the weighted mean as tune.py writes a network: with fit.npz and fit.json."""

    folders: Annotated[tuple[Path, ...], Argument(positional=True)]
    """What tune.py wrote."""
    shares: tuple[float, ...]
    """How much each counts."""
    output: Path
    """The folder to write."""
    model: str = "default"
    """The shipped model from which tune.py began."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if len(options.folders) != len(options.shares) or sum(options.shares) > 1:
        raise InputError("give one of --shares for each folder, in all at most 1")
    shipped = load_model(options.model, compute_dtype=torch.float32)
    head = load_head(shipped.folder / FOLDER, shipped.model.config.hidden_size)
    models = [load_model(folder, compute_dtype=torch.float32) for folder in options.folders]
    states = [loaded.model.state_dict() for loaded in (*models, shipped)]
    fits = [*(dict(np.load(folder / "fit.npz")) for folder in options.folders), fit_of(head)]
    shares = [*options.shares, 1 - sum(options.shares)]
    mean = weighted_mean(states, shares)
    origin = describe_origin()
    provenance = {
        "tuned": [own_origin(loaded) for loaded in models],
        "finetuned_from": dict(shipped.provenance),
        "shares": shares,
        **origin,
    }
    save_model(
        options.output, shipped.model, shipped.profile, provenance,
        tokenizer=shipped.tokenizer, weights=mean,
    )  # fmt: skip
    np.savez(options.output / "fit.npz", allow_pickle=False, **mixed(fits, shares))
    settings = [read_json(folder / "fit.json")["options"] for folder in options.folders]
    content = {"options": settings, "shares": shares, "origin": origin}
    write_json(options.output / "fit.json", content, "a result")


def own_origin(loaded: LoadedModel) -> dict[str, Any]:
    """Return where a model comes from, but for the one that it began from."""
    return {name: value for name, value in loaded.provenance.items() if name != "finetuned_from"}


if __name__ == "__main__":
    command.run(main)
