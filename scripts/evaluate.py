"""Score a model on text: bits per character.

python scripts/evaluate.py --model runs/tour --data data/reviews
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

import command


@dataclass(frozen=True, kw_only=True)
class Options:
    """Score a model on text: bits per character (byte of text, whatever the tokenizer)."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    data: Path
    """A prepared corpus, of which the test split is scored, or a file that prepare_corpus reads."""
    text_key: str | None = None
    """Key of the text in a file; absent, the first of text, sentence, reviewText, review."""
    split: Literal["train", "valid", "test"] = "test"
    """Split of a prepared corpus."""
    reset: Literal["strip", "review"] = "strip"
    """strip: in file order, the state carried on; review: every review from the zero state."""
    lanes: int | None = None
    """Strips read side by side, each from the zero state; 1 is file order to the letter. Absent:
    one per 20,000 symbols, at most 64."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Dtype of the products."""
    output: Path | None = None
    """JSON file for the result."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""


def main() -> None:
    options = command.parse(Options, __doc__)

    from data_utils.provenance import describe_origin
    from data_utils.sources import load_split
    from model.files.weights import load_model
    from training.evaluation import score_split
    from training.precision import DTYPES

    loaded = load_model(
        options.model, compute_dtype=DTYPES[options.precision], device=options.device
    )
    split = load_split(
        options.data, options.split, loaded.profile, loaded.tokenizer, options.text_key
    )
    started = perf_counter()
    score = score_split(loaded.model, split, lanes=options.lanes, reset=options.reset)
    result = {
        "bits_per_character": score.bits_per_character,
        "standard_error": score.standard_error,
        "characters": score.characters,
        "reviews": split.reviews,
        "seconds": round(perf_counter() - started, 2),
        "reset": options.reset,
        "cold_starts": score.cold_starts,
        "origin": describe_origin(),
    }
    command.report(result, options.output)


if __name__ == "__main__":
    command.run(main)
