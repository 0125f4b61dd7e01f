"""Write the mean of several networks of one training, such as its newest checkpoints.

python -m experiments.models.mean runs/decay005/checkpoint/step-* --output runs/mean

At a held rate the weights move around a place that none of them is at (Izmailov et al. 2018, arXiv
1803.05407).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

from configs import command
from data_utils.provenance import describe_origin
from mlstm_sentiment.bounds import Argument, Bound
from mlstm_sentiment.errors import InputError
from model.inference.weights import LoadedModel, load_model, save_model

SCORE = "best_valid_bits_per_character"


@dataclass(frozen=True)
class Options:
    """Write a model directory; it has read what the last network has read."""

    models: Annotated[tuple[Path, ...], Argument(positional=True)]
    """Model directories, runs or checkpoints, the latest last."""
    output: Path
    """The model directory to write."""
    shares: tuple[Annotated[float, Bound(above=0)], ...] | None = None
    """How much each counts. Default: all the same."""


def main() -> None:
    options = command.parse(Options, __doc__)
    shares = options.shares or (1.0,) * len(options.models)
    if len(shares) != len(options.models):
        raise InputError("give one of --shares for each model")
    command.prepare_output(options.output)
    first: LoadedModel | None = None
    sums: dict[str, torch.Tensor] = {}
    read = []
    for folder, share in zip(options.models, shares, strict=True):
        loaded = load_model(folder, compute_dtype=torch.float32)
        first = first or loaded
        if kind_of(loaded) != kind_of(first):
            raise InputError(f"{folder}: is of another kind than {first.folder}")
        for name, tensor in loaded.model.state_dict().items():
            sums[name] = sums.get(name, 0) + share / sum(shares) * tensor.double()
        read.append({"share": share, "characters": loaded.provenance.get("characters")})
    mean = {name: tensor.float() for name, tensor in sums.items()}
    provenance = {**loaded.provenance, **describe_origin(), "mean_of": read}
    provenance.pop(SCORE, None)  # of the last network alone
    save_model(
        options.output, loaded.model, loaded.profile, provenance,
        tokenizer=loaded.tokenizer, weights=mean,
    )  # fmt: skip


def kind_of(loaded: LoadedModel) -> tuple[object, ...]:
    """Return what networks have in common of which a mean has a meaning."""
    return loaded.architecture, loaded.profile, loaded.tokenizer.fingerprint


if __name__ == "__main__":
    command.run(main)
