"""Write a model whose weights are the mean of those of several models.

python -m experiments.models.mean_weights runs/a runs/b runs/b --output runs/mean

The models must stem from one training run: the mean of unrelated weights is useless. A model that
is named twice counts twice.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from configs import command
from data_utils.provenance import describe_origin
from model.bounds import Argument
from model.errors import InputError
from model.files.weights import LoadedModel, load_model, save_model


@dataclass(frozen=True, kw_only=True)
class Options:
    """Average the weights of models of one architecture and vocabulary."""

    models: Annotated[tuple[str, ...], Argument(positional=True)]
    """Model directories or run directories."""
    output: Path
    """The model directory to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    times = Counter(options.models)
    loaded = {name: load_model(name, compute_dtype=torch.float32) for name in times}
    first = loaded[options.models[0]]
    for name, other in loaded.items():
        if signature(other) != signature(first):
            raise InputError(f"{name} and {options.models[0]} differ in architecture or vocabulary")
    weights = {name: each.model.state_dict() for name, each in loaded.items()}
    mean = {}
    for key, tensor in weights[options.models[0]].items():
        total = sum(n * weights[name][key].double() for name, n in times.items())
        mean[key] = (total / times.total()).to(tensor.dtype)
    parts = [each.provenance for each in loaded.values()]
    provenance = {"mean_of": parts, "times": list(times.values()), **describe_origin()}
    save_model(
        options.output, first.model, first.profile, provenance,
        tokenizer=first.tokenizer, weights=mean,
    )  # fmt: skip
    counts = ", ".join(f"{name} ({n} x)" for name, n in times.items())
    print(f"{options.output}: the mean of {counts}")


def signature(loaded: LoadedModel) -> tuple[Any, str]:
    """Return what two models must share for their weights to be averaged."""
    return loaded.model.config, loaded.tokenizer.fingerprint


if __name__ == "__main__":
    command.run(main)
