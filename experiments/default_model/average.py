"""Average the weights of two trainings, the second of which continued the first.

Wortsman et al. 2022 (arXiv 2203.05482).

python -m experiments.default_model.average runs/default/step-00002251 \\
    runs/default_second/step-00000733 --output runs/default_average
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.train import HEADS_FILE
from model.files.weights import load_model, load_tensors, save_model, save_tensors


@dataclass(frozen=True)
class Options:
    """Write a weighted mean of two models and of their heads."""

    first: Annotated[Path, tyro.conf.Positional]
    """The folder of a step of experiments.default_model.train."""
    second: Annotated[Path, tyro.conf.Positional]
    """The folder of a step of a training that began at the first."""
    output: Path
    """The folder to write."""
    share: float = 0.5
    """Weight of the second model; the first has the rest."""


def main() -> None:
    average(command.parse(Options, __doc__))


def average(options: Options) -> None:
    """Write the weighted mean of two models and of their heads."""
    first, second = load_model(options.first), load_model(options.second)
    weights = first.model.state_dict()
    for name, tensor in second.model.state_dict().items():
        weights[name] = weights[name].lerp(tensor, options.share)
    first.model.load_state_dict(weights)
    provenance = {"finetuned_from": dict(second.provenance), **describe_origin()}
    save_model(options.output, first.model, first.profile, provenance)
    heads = load_tensors(options.first / HEADS_FILE)
    for name, tensor in load_tensors(options.second / HEADS_FILE).items():
        heads[name] = heads[name].lerp(tensor, options.share)
    save_tensors(options.output / HEADS_FILE, heads)


if __name__ == "__main__":
    command.run(main)
