"""Write the mean of several networks of one training, such as its newest checkpoints.

python -m experiments.models.mean runs/decay005/checkpoint/step-* --output runs/mean

At a held rate the weights move around a place that none of them is at (Izmailov et al. 2018, arXiv
1803.05407).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from configs import command
from data_utils.provenance import describe_origin
from mlstm_sentiment.bounds import Argument
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


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.output.exists():
        raise InputError(f"{options.output}: exists already; name another folder")
    models = [load_model(folder, compute_dtype=torch.float32) for folder in options.models]
    for loaded in models:
        if kind_of(loaded) != kind_of(models[0]):
            raise InputError(f"{loaded.folder}: is of another kind than {models[0].folder}")
    mean = weighted_mean(
        [each.model.state_dict() for each in models], [1 / len(models)] * len(models)
    )
    last, parts = models[-1], [dict(each.provenance) for each in models]
    provenance = {**last.provenance, **describe_origin(), "mean_of": parts}
    provenance.pop(SCORE, None)  # of the last network alone
    save_model(
        options.output, last.model, last.profile, provenance,
        tokenizer=last.tokenizer, weights=mean,
    )  # fmt: skip


def weighted_mean(
    states: Sequence[Mapping[str, torch.Tensor]], shares: Sequence[float]
) -> dict[str, Any]:
    """Return the mean of networks' tensors by name; shares: how much each counts, in all 1."""
    return {
        name: sum(share * state[name] for share, state in zip(shares, states, strict=True))
        for name in states[0]
    }


def kind_of(loaded: LoadedModel) -> tuple[object, ...]:
    """Return what networks have in common of which a mean has a meaning."""
    return loaded.architecture, loaded.profile, loaded.tokenizer.fingerprint


if __name__ == "__main__":
    command.run(main)
