"""Write a model as OpenAI's 15 .npy files, which their code reads.

python scripts/export_weights.py runs/tour --output weights
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import command

import tyro


@dataclass(frozen=True)
class Options:
    """Write a model as OpenAI's 15 .npy files, which their code reads."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A model directory, a run directory, or the name of a shipped model."""
    output: Path
    """The folder to make; if it exists, it must be empty."""


def main() -> None:
    options = command.parse(Options, __doc__)

    from model.files.weights import load_model
    from model.published.openai import write_openai

    loaded = load_model(options.model, device="cpu")
    write_openai(options.output, loaded.model)
    print(f"{options.output}: 0.npy to 14.npy, {loaded.model.config.hidden_size} units")
    print(f"the files do not record the text profile; this model's is {loaded.profile.name}")


if __name__ == "__main__":
    command.run(main)
