"""Featurizing speed: our ragged batches against batches padded to their longest text.

python -m experiments.featurizing.run --model runs/amazon_1024 --input imdb_test.jsonl.gz \\
    --output experiments/featurizing/results/imdb.json
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from configs import command
from data_utils.labelled import read_plain_texts
from data_utils.provenance import describe_origin
from model.features import features_in_order
from model.language_model import LanguageModel
from model.storage import write_json
from model.weights import load_model

BATCH = 128
WINDOW = 128  # bytes at a time, in both


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time both ways in turns."""

    model: str
    """A model directory, a run directory, or the name of a shipped model."""
    input: Path
    """Texts in any format that is read."""
    texts: int = 1024
    """How many of them, the first."""
    rounds: int = 3
    """Turns."""
    output: Path
    """The JSON file of results."""


def main() -> None:
    options = command.parse(Options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    texts = read_plain_texts(options.input)[: options.texts]
    sequences = [loaded.tokens(text) for text in texts]
    characters = sum(map(len, sequences))
    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: features_in_order(loaded.model, sequences, batch_size=BATCH),
        "padded": lambda: read_padded(loaded.model, sequences),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            started = perf_counter()
            way()
            seconds[name].append(perf_counter() - started)
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["padded"], strict=True)]
    result = {
        "characters_per_second": {
            name: characters / statistics.median(values) for name, values in seconds.items()
        },
        "ratio": {"median": statistics.median(ratios), "all": ratios},
        "texts": len(texts),
        "characters": characters,
        "hidden_size": loaded.model.config.hidden_size,
        "origin": describe_origin(),
    }
    for name, speed in result["characters_per_second"].items():
        print(f"{name:<8}{speed:12,.0f} characters per second")
    print(f"ours is {result['ratio']['median']:.2f} times as fast")
    write_json(options.output, result)


def read_padded(model: LanguageModel, sequences: list[np.ndarray]) -> None:
    """Read in the order of the input, each batch padded to its longest text.

    Which state belongs to a text is not looked up: what is left out makes this way the faster one.
    """
    with torch.inference_mode():
        weights = model.fold()
        for begin in range(0, len(sequences), BATCH):
            part = sequences[begin : begin + BATCH]
            tokens = torch.zeros(len(part), max(map(len, part)), dtype=torch.long)
            for row, sequence in enumerate(part):
                tokens[row, : len(sequence)] = torch.from_numpy(sequence.copy())
            state = model.initial_state(len(part))
            for window in tokens.split(WINDOW, dim=1):
                _, state = model.hidden(window, state, weights)


if __name__ == "__main__":
    command.run(main)
