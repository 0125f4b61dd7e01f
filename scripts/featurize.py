"""Write the features of texts: float32 [N, H], the final cell state after each.

python scripts/featurize.py --model runs/tour --input texts.csv --output features.npy
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import command


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the features of texts: float32 [N, H], the final cell state after each."""

    model: str
    """A model directory, a run directory, or the name of a shipped model."""
    input: Path
    """Texts: CSV, TSV, JSON lines or text (one a line)."""
    output: Path
    """The .npy file to write; rows are in input order."""
    text_key: str | None = None
    """Key of the text; absent, the first present of text, sentence, reviewText, review."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Dtype of the products."""
    batch_size: int = 128
    """Texts read together."""


def main() -> None:
    options = command.parse(Options)

    import numpy as np
    from tqdm import tqdm

    from data_utils.labelled import read_plain_texts
    from model.features import features_in_order
    from model.storage import write_atomically
    from model.weights import load_model
    from training.precision import DTYPES

    loaded = load_model(options.model, compute_dtype=DTYPES[options.precision])
    texts = read_plain_texts(options.input, options.text_key)
    sequences = [loaded.tokens(text) for text in texts]
    with tqdm(total=len(texts), unit=" texts", disable=None) as bar:
        features = features_in_order(
            loaded.model, sequences, batch_size=options.batch_size, advance=bar.update
        )

    def write(path: Path) -> None:
        with open(path, "wb") as file:  # np.save would add a suffix to a path
            np.save(file, features, allow_pickle=False)

    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.output, write)
    print(f"{options.output}: {features.shape[0]:,} texts, {features.shape[1]:,} features")


if __name__ == "__main__":
    command.run(main)
