"""Write a model whose weights are the mean of those of several models.

python -m experiments.models.mean_weights runs/a runs/b runs/b --output runs/mean

The models must stem from one training run: the mean of unrelated weights is useless. A model that
is named twice counts twice.
"""

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
    loaded = [load_model(name, compute_dtype=torch.float32) for name in options.models]
    first = loaded[0]
    for name, other in zip(options.models, loaded, strict=True):
        if signature(other) != signature(first):
            raise InputError(f"{name} and {options.models[0]} differ in architecture or vocabulary")
    weights = [each.model.state_dict() for each in loaded]
    mean = {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(tensor.dtype)
        for name, tensor in weights[0].items()
    }
    provenance = {"mean_of": [each.provenance for each in loaded], **describe_origin()}
    save_model(
        options.output, first.model, first.profile, provenance,
        tokenizer=first.tokenizer, weights=mean,
    )  # fmt: skip
    print(f"{options.output}: the mean of {len(loaded)} models: {', '.join(options.models)}")


def signature(loaded: LoadedModel) -> tuple[Any, str]:
    """Return what two models must share for their weights to be averaged."""
    return loaded.model.config, loaded.tokenizer.fingerprint


if __name__ == "__main__":
    command.run(main)
