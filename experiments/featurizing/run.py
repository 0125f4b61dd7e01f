"""Featurizing speed: our ragged batches against batches padded to their longest text.

python -m experiments.featurizing.run --model runs/amazon_1024 --input imdb_test.jsonl.gz \\
    --output experiments/featurizing/results/imdb.json
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from configs import command
from data_utils.options import Model, TextKey
from data_utils.provenance import describe_origin
from model.errors import InputError
from model.features import features_in_order
from model.files.storage import write_json
from model.files.weights import load_model
from model.language_model import LanguageModel
from model.reading.texts import read_plain_texts
from scaling.benchmark.timing import interleave, rates, ratio

WINDOW = 128  # bytes at a time, in all of them
PATHS = ("model", "input", "output")  # options that say where files lie on somebody's machine


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time all ways in turns, in fp32, and say how many times as fast ours is."""

    model: Model = "default"
    input: Path
    """Texts in any format that prepare_corpus reads."""
    text_key: TextKey = None
    texts: int = 512
    """How many of them, drawn at random; as many as there are, where there are fewer."""
    batch_size: int = 128
    """Texts read together, in all ways; the published code's default."""
    rounds: int = 3
    """Counted rounds, in each of which everything runs once."""
    seed: int = 0
    """Draws the texts."""
    output: Path
    """The JSON file of results."""

    def __post_init__(self) -> None:
        for name in ("texts", "batch_size", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1")


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    texts = read_plain_texts(options.input, options.text_key)
    drawn = np.random.default_rng(options.seed).permutation(len(texts))[: options.texts]
    sequences = [loaded.tokens(texts[index]) for index in drawn]
    print(f"about {estimate(loaded.model, sequences, options) / 60:.0f} minutes", flush=True)
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
    """Return characters per second of every way, pads not counted, and ours over the others."""
    work = ways(model, sequences, options.batch_size)
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
            name: padded_size(order(sequences, name), options.batch_size)
            for name in ("padded", "padded_sorted")
        },
        "hidden_size": model.config.hidden_size,
        "threads": torch.get_num_threads(),
        "options": kept,
        "seconds": seconds,
        "origin": describe_origin(),
    }


def ways(
    model: LanguageModel, sequences: Sequence[np.ndarray], batch_size: int
) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    return {
        "ours": lambda: features_in_order(model, sequences, batch_size=batch_size),
        "padded": lambda: read_padded(model, order(sequences, "padded"), batch_size),
        "padded_sorted": lambda: read_padded(model, order(sequences, "padded_sorted"), batch_size),
    }


def order(sequences: Sequence[np.ndarray], way: str) -> Sequence[np.ndarray]:
    """Return the sequences as a way reads them: as given, as published, or longest first."""
    return sorted(sequences, key=len, reverse=True) if way == "padded_sorted" else sequences


def padded_size(sequences: Sequence[np.ndarray], batch_size: int) -> int:
    """Return the bytes of all batches, each of the length of its longest text."""
    batches = (sequences[i : i + batch_size] for i in range(0, len(sequences), batch_size))
    return sum(len(batch) * max(map(len, batch)) for batch in batches)


def read_padded(model: LanguageModel, sequences: Sequence[np.ndarray], batch_size: int) -> None:
    """Read batch by batch, each padded to its longest text, as NVIDIA's code did.

    Which state belongs to a text is not looked up: what is left out makes this way the faster one.
    """
    with torch.inference_mode():
        weights = model.fold()
        for begin in range(0, len(sequences), batch_size):
            part = sequences[begin : begin + batch_size]
            tokens = torch.zeros(len(part), max(map(len, part)), dtype=torch.long)  # [B, longest]
            for row, sequence in enumerate(part):
                tokens[row, : len(sequence)] = torch.from_numpy(sequence.astype(np.int64))
            state = model.initial_state(len(part))
            for window in tokens.split(WINDOW, dim=1):
                _, state = model.hidden(window, state, weights)


def estimate(model: LanguageModel, sequences: Sequence[np.ndarray], options: Options) -> float:
    """Return the seconds that the measurement will take, from one window read twice."""
    batch = [sequence[:WINDOW] for sequence in sequences[: options.batch_size]]
    read_padded(model, batch, options.batch_size)  # what is compiled or allocated once
    started = perf_counter()
    read_padded(model, batch, options.batch_size)
    each = (perf_counter() - started) / padded_size(batch, options.batch_size)
    padded = sum(
        padded_size(order(sequences, name), options.batch_size)
        for name in ("padded", "padded_sorted")
    )
    return each * (options.rounds + 1) * (padded + sum(map(len, sequences)))


if __name__ == "__main__":
    command.run(main)
