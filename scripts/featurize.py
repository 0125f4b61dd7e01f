"""Write the features of texts: float32 [N, F], unless asked otherwise the final cell state of each.

python scripts/featurize.py --model runs/tour --input texts.csv --output features.npy
python scripts/featurize.py --model runs/tour --input texts.csv --output unit7.npy \\
    --pooling mean --units 7
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

import command

from model.errors import InputError
from model.features import FeatureKind


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the features of texts: float32 [N, F], by default the final cell state after each."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    input: Path
    """Texts: CSV, TSV, JSON lines, Parquet or text (one a line), also compressed."""
    output: Path
    """The .npy file to write; rows are in input order."""
    text_key: str | None = None
    """Key of the text; absent, the first present of text, sentence, reviewText, review."""
    kind: Annotated[FeatureKind, tyro.conf.arg(name="")] = field(default_factory=FeatureKind)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Dtype of the products."""
    batch_size: int = 128
    """Texts read together; it changes the speed, not the features."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.output.suffix != ".npy":
        raise InputError(f"--output {options.output}: the name must end in .npy")
    command.prepare_output(options.output)

    import numpy as np
    from tqdm import tqdm

    from data_utils.labelled import read_plain_texts
    from model.features import features_in_order
    from model.files.storage import write_atomically
    from model.files.weights import load_model
    from training.precision import DTYPES

    loaded = load_model(
        options.model, compute_dtype=DTYPES[options.precision], device=options.device
    )
    options.kind.size(loaded.model.config)  # refuses what the model lacks, before texts are read
    texts = read_plain_texts(options.input, options.text_key)
    sequences = [loaded.tokens(text) for text in texts]
    size = sum(map(len, sequences))
    with tqdm(total=size, unit="B", unit_scale=True, desc="reading", disable=None) as bar:
        features = features_in_order(
            loaded.model,
            sequences,
            kind=options.kind,
            batch_size=options.batch_size,
            advance=bar.update,
        )

    def write(path: Path) -> None:
        with open(path, "wb") as file:  # np.save would add a suffix to a path
            np.save(file, features, allow_pickle=False)

    write_atomically(options.output, write)
    print(f"{options.output}: {features.shape[0]:,} texts, {features.shape[1]:,} features")


if __name__ == "__main__":
    command.run(main)
