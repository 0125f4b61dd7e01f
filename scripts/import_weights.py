"""Turn weights that OpenAI, NVIDIA or UniRep's authors published into a model directory.

python scripts/import_weights.py openai weights/ --output models/openai
python scripts/import_weights.py nvidia mlstm.pt --output models/nvidia
python scripts/import_weights.py unirep model_weights.npz --output models/unirep
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import command

from mlstm_sentiment.bounds import Argument


@dataclass(frozen=True)
class Options:
    """Turn weights that OpenAI, NVIDIA or UniRep's authors published into a model directory."""

    layout: Annotated[Literal["openai", "nvidia", "unirep"], Argument(positional=True)]
    """Layout of the source."""
    source: Annotated[Path, Argument(positional=True, metavar="SOURCE")]
    """OpenAI's folder of numbered .npy files, NVIDIA's .pt file, or UniRep's .npz file."""
    output: Path
    """The model directory to make; it must not exist yet, or be empty."""
    gate_order: Literal["auto", "ifou", "ifuo"] = "auto"
    """Order of the gates in the source. auto: for openai and unirep, the order in their code; for
    nvidia, decided by the number of tokens and by how well the model predicts English."""
    text_profile: str | None = None
    """How the model's texts are cleaned and framed. Default: as in the source's own code."""


def main() -> None:
    options = command.parse(Options, __doc__)

    from mlstm_sentiment.errors import InputError
    from mlstm_sentiment.files.shipped import MODEL_FILES
    from mlstm_sentiment.files.storage import is_taken, whole_folder
    from mlstm_sentiment.text.profiles import text_profile
    from model.inference.weights import save_model
    from transfer.published.imports import IMPORTERS

    # Each layout's models were trained with the profile of its own name.
    own = "protein" if options.layout == "unirep" else options.layout
    profile = text_profile(options.text_profile or own)
    if is_taken(options.output):
        raise InputError(f"{options.output}: exists already; remove it or name another folder")
    imported = IMPORTERS[options.layout](options.source, options.gate_order)
    with whole_folder(options.output, MODEL_FILES) as folder:
        save_model(folder, imported.model, profile, imported.provenance)
    config = imported.model.config
    command.say(f"{options.output}: {config.hidden_size} units, text profile {profile.name}")
    for remark in imported.remarks:
        print(remark)
    for warning in imported.warnings:
        print(f"warning: {warning}", file=sys.stderr)


if __name__ == "__main__":
    command.run(main)
