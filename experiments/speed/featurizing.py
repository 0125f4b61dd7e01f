"""Compare the speed of our ragged batches with batches that are padded to their longest text.

python -m experiments.speed.featurizing --model runs/amazon_1024 --input imdb_test.jsonl.gz \\
    --output experiments/speed/results/imdb.json
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from configs import command
from data_utils.options import Model, TextKey
from data_utils.provenance import describe_origin
from model.bounds import PositiveInt
from model.files.storage import write_json
from model.files.weights import load_model
from model.inference.features import features_in_order
from model.layers.language_model import LanguageModel
from model.reading.texts import read_plain_texts
from scaling.benchmark.timing import interleave, rates, ratio

WINDOW = 128  # bytes that every way reads at a time
PATHS = ("model", "input", "output")  # options that a result does not publish


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time all ways in turns, in fp32, and print the ratios of their speed."""

    model: Model = "default"
    input: Path
    """A file of texts in any format that prepare_corpus reads."""
    text_key: TextKey = None
    texts: PositiveInt = 512
    """Number of texts, drawn at random; at most all."""
    batch_size: PositiveInt = 128
    """Texts of a batch; the published code's default."""
    rounds: PositiveInt = 3
    """Rounds that count; each runs every way once."""
    seed: int = 0
    """Seed that draws the texts."""
    output: Path
    """The JSON file of results."""


def main() -> None:
    compare(command.parse(Options, __doc__))


def compare(options: Options) -> None:
    """Time all ways, print their speeds, and write the result."""
    command.prepare_output(options.output)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    texts = read_plain_texts(options.input, options.text_key)
    drawn = np.random.default_rng(options.seed).permutation(len(texts))[: options.texts]
    sequences = [loaded.tokens(texts[index]) for index in drawn]
    result = measure(loaded.model, sequences, options)
    for name, speed in result["characters_per_second"].items():
        print(f"{name:<15}{speed:12,.0f} characters per second")
    for name, value in result["ratios"].items():
        times = f"{value['median']:.2f} ({value['low']:.2f} to {value['high']:.2f})"
        print(f"ours is {times} times as fast as {name}")
    write_json(options.output, result)


def measure(
    model: LanguageModel, sequences: Sequence[np.ndarray], options: Options
) -> dict[str, Any]:
    """Return the characters per second of every way, without pads, and our ratios to the others."""
    longest_first = sorted(sequences, key=len, reverse=True)
    padded = {"padded": sequences, "padded_sorted": longest_first}
    work: dict[str, Callable[[], object]] = {
        "ours": lambda: features_in_order(model, sequences, batch_size=options.batch_size),
        **{
            name: partial(read_padded, model, ordered, options.batch_size)
            for name, ordered in padded.items()
        },
    }
    seconds = interleave(work, options.rounds)
    characters = sum(map(len, sequences))
    speeds, spread = rates(seconds, characters)
    kept = {name: value for name, value in asdict(options).items() if name not in PATHS}
    return {
        "characters_per_second": speeds,
        "spread": spread,
        "ratios": {name: ratio(seconds, "ours", name) for name in work if name != "ours"},
        "texts": len(sequences),
        "characters": characters,
        "padded_characters": {
            name: padded_size(ordered, options.batch_size) for name, ordered in padded.items()
        },
        "hidden_size": model.config.hidden_size,
        "threads": torch.get_num_threads(),
        "options": kept,
        "seconds": seconds,
        "origin": describe_origin(),
    }


def padded_size(sequences: Sequence[np.ndarray], batch_size: int) -> int:
    """Return the bytes of all batches with their pads."""
    batches = (sequences[i : i + batch_size] for i in range(0, len(sequences), batch_size))
    return sum(len(batch) * max(map(len, batch)) for batch in batches)


def read_padded(
    model: LanguageModel, sequences: Sequence[np.ndarray], batch_size: int
) -> list[torch.Tensor]:
    """Read batch by batch, each padded to its longest text, as NVIDIA's code did.

    Returns the cell state [B, H] at the end of each batch. It does not look up which state belongs
    to which text, so it is faster than the original.
    """
    ends = []
    with torch.inference_mode():
        weights = model.prepare_weights()
        for begin in range(0, len(sequences), batch_size):
            part = sequences[begin : begin + batch_size]
            tokens = torch.zeros(len(part), max(map(len, part)), dtype=torch.long)  # [B, longest]
            for row, sequence in enumerate(part):
                tokens[row, : len(sequence)] = torch.from_numpy(sequence.astype(np.int64))
            state = model.initial_state(len(part))
            for window in tokens.split(WINDOW, dim=1):
                _, state = model.hidden(window, state, weights)
            ends.append(state.c[-1])
    return ends


if __name__ == "__main__":
    command.run(main)
