"""Inference with products in fp32, in bf16 and of 8-bit integers: its time, and its results.

The precisions alternate in one process on one core. Only the processor's time of the process
counts, so other programs matter little; they share the last cache and the memory with it. Results
are compared text by text with those in fp32, and with the labels.

python -m experiments.speed.precisions --data sst/test.csv imdb/imdb_test.jsonl.gz
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from configs import command
from data_utils.labelled import read_labelled_sets
from data_utils.provenance import describe_origin
from experiments.results import write_result
from experiments.speed.benchmark.timing import interleave
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, build_model

PRECISIONS = ("fp32", "bf16", "int8")
WINDOW = 32  # bytes
UNITS = (512, 1024)  # H of the models that are timed
LANES = (1, 8, 64)  # texts that they read side by side
BATCH = 128  # texts that are classified together
LONGEST = 500  # characters of these
SEED = 0  # draws the texts


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time windows of untrained models and a classifier, then compare its results on texts."""

    data: tuple[Path, ...]
    """Labelled texts, 0 or 1."""
    characters: int = 400_000
    """Characters of each file, in texts drawn at random; at most all."""
    rounds: int = 15
    """How often everything has its turn."""


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.set_num_threads(1)
    drawn = {path.name.split(".")[0]: draw(path, options) for path in options.data}
    classifiers = {p: SentimentClassifier.from_pretrained(precision=p) for p in PRECISIONS}
    agreement = {name: compare(classifiers, *part) for name, part in drawn.items()}
    result = {
        "microseconds": time_windows(options.rounds),
        "classify": time_classifying(classifiers, next(iter(drawn.values()))[0], options),
        "agreement": agreement,
        "options": {"units": UNITS, "lanes": LANES, "rounds": options.rounds},
        "threads": 1,
        "origin": describe_origin(),
    }
    write_result("speed", "precisions", result)
    for name, row in agreement.items():
        for precision, changes in row.items():
            print(f"{name}, {precision}: {changes}")


def draw(path: Path, options: Options) -> tuple[list[str], np.ndarray]:
    """Return texts of a file, drawn at random, and their labels [N]."""
    (dataset,) = read_labelled_sets([path])
    drawn = np.random.default_rng(SEED).permutation(len(dataset.texts))
    sizes = np.cumsum([len(dataset.texts[index]) for index in drawn])
    drawn = drawn[: int((sizes <= options.characters).sum())]
    return [dataset.texts[index] for index in drawn], dataset.labels[drawn]


@torch.inference_mode()
def time_windows(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return microseconds for a byte of all lanes, by units, lanes and precision."""
    times: dict[str, dict[str, dict[str, float]]] = {}
    for H in UNITS:
        models = {precision: untrained(H, precision) for precision in PRECISIONS}
        for lanes in LANES:
            work = {name: window(model, lanes) for name, model in models.items()}
            seconds = processor_time(work, rounds)
            times.setdefault(f"{H}", {})[f"{lanes}"] = {
                name: value / WINDOW for name, value in seconds.items()
            }
    return times


def processor_time(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run all alternately; return the median microseconds of the processor's time for one run."""
    seconds = interleave(work, rounds, clock=process_time)
    return {name: 1e6 * median(of_rounds) for name, of_rounds in seconds.items()}


def untrained(H: int, precision: str) -> LanguageModel:
    """Return a model of one layer that multiplies in a precision."""
    model = build_model(ModelConfig(hidden_size=H), seed=0).eval()
    model.set_precision(precision)
    return model


def window(model: LanguageModel, lanes: int) -> Callable[[], object]:
    """Return a function that reads the same window again and again."""
    tokens = torch.randint(0, 256, (lanes, WINDOW), generator=torch.Generator().manual_seed(0))
    return partial(model.hidden, tokens, model.initial_state(lanes), model.prepare_weights())


def time_classifying(
    classifiers: dict[str, SentimentClassifier], drawn: Sequence[str], options: Options
) -> dict[str, float]:
    """Return microseconds for a character, from texts to labels, by precision."""
    texts = [text[:LONGEST] for text in drawn[:BATCH]]
    work = {name: partial(each.predict_all, texts) for name, each in classifiers.items()}
    seconds = processor_time(work, max(1, options.rounds // 5))
    return {name: value / sum(map(len, texts)) for name, value in seconds.items()}


def compare(
    classifiers: dict[str, SentimentClassifier], texts: Sequence[str], labels: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return each precision's accuracy and distance from fp32: of probabilities, and in labels."""
    read = {name: classifiers[name].predict_all(texts) for name in PRECISIONS}
    exact = read[PRECISIONS[0]]
    result = {}
    for name, predictions in read.items():
        differences = np.abs(predictions.probabilities - exact.probabilities).max(1)
        result[name] = {
            "texts": len(texts),
            "characters": sum(map(len, texts)),
            "accuracy": float((predictions.choices == labels).mean()),
            "largest": float(differences.max()),
            "median": float(np.median(differences)),
            "changed": int((predictions.choices != exact.choices).sum()),
        }
    return result


if __name__ == "__main__":
    command.run(main)
