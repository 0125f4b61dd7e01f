"""The inference engine against torch: time, memory, answers, and the fraction of the peak.

All alternate in one process on one core. Only the processor's time of the process counts, so other
programs matter little; they share the last cache and the memory with it. The peak is that of the
instructions a path multiplies with, from registers alone, measured in the same process.

python -m experiments.speed.engine --data sst/test.csv imdb/imdb_test.jsonl.gz --output engine.json
"""

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import torch

from configs import command
from data_utils.labelled import read_labelled_sets
from data_utils.provenance import describe_origin
from experiments.speed.benchmark.timing import interleave
from mlstm_sentiment.engine import library
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.engine import Precision as EnginePrecision
from mlstm_sentiment.engine.kinds import Pooling
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import read
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig, Precision
from model.layers.language_model import build_model

PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
POOLING: tuple[Pooling, ...] = ("last", "mean")
PRECISIONS_OF_ENGINE: tuple[EnginePrecision, ...] = ("exact", "fast")
SEED = 0  # draws the texts
NEAR = 0.001  # of a threshold: a label there may change with the last digits
SHORT = "I love it, it works perfectly."
PEAK_REPEATS = {"avx2": 20_000_000}
FIRST_ANSWER = """
import time
from mlstm_sentiment.engine.engine import Engine
engine = Engine.load({name!r})
engine.read([{text!r}])
with open("/proc/self/status") as file:  # getrusage would count the parent's memory
    lines = dict(line.split(":", 1) for line in file)
kilobytes = lines["VmHWM"].split()[0]
print([time.process_time(), int(kilobytes) / 1024])
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the engine and torch on texts, and compare their answers."""

    data: tuple[Path, ...]
    """Labelled texts, 0 or 1."""
    output: Path
    """Where the result goes, JSON."""
    model: str = "default"
    """A shipped model with a classifier."""
    texts: int = 256
    """How many texts of each file are timed, drawn at random."""
    compared: int = 2000
    """How many texts of each file are compared with torch's answers."""
    rounds: int = 5
    """How often everything has its turn."""
    short_rounds: int = 50
    """How often a single text is processed."""


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.set_num_threads(1)
    paths = [name for name in library.path_names() if name not in ("plain", library.NUMPY)]
    peaks = {path: peak(path) for path in paths}
    drawn = {path.name.split(".")[0]: draw(path) for path in options.data}
    result: dict[str, Any] = {"seconds_per_1000": {}, "of_peak": {}, "agreement": {}}
    for name, texts in drawn.items():
        timed = time_texts(options, paths, texts[: options.texts])
        result["seconds_per_1000"][name] = timed
        result["of_peak"][name] = of_peak(options.model, texts[: options.texts], timed, peaks)
        result["agreement"][name] = compare(options.model, texts[: options.compared])
    result |= {
        "ratios": {name: ratios(timed) for name, timed in result["seconds_per_1000"].items()},
        "peak_gmac_per_second": peaks,
        "first_answer": [first_answer(options.model) for _ in range(options.rounds)],
        "short_text_ms": short_text(options),
        "floats": time_floats(options.rounds),
        "options": {"model": options.model, "texts": options.texts, "rounds": options.rounds},
        "threads": 1,
        "origin": describe_origin(),
    }
    write_json(options.output, result, "a result")
    show(result)


def draw(path: Path) -> list[str]:
    """Return all texts of a file, in a random order that is the same every time."""
    (dataset,) = read_labelled_sets([path])
    order = np.random.default_rng(SEED).permutation(len(dataset.texts))
    return [dataset.texts[index] for index in order]


def time_texts(options: Options, paths: Sequence[str], texts: list[str]) -> dict[str, Any]:
    """Return CPU seconds for 1,000 texts, from tokens to features: median, and all rounds."""
    loaded = load_model(options.model)
    tokens = [loaded.encode(text) for text in texts]
    work: dict[str, Callable[[], object]] = {}
    for path in paths:
        for precision in ("exact", "fast") if path == paths[0] else ("exact",):
            engine = Engine.load(options.model, precision=precision, path=path)
            name = f"engine {path} {precision}"
            work[name] = partial(engine.read, tokens, POOLING)
            work[f"{name}, bits"] = partial(engine.read, tokens, POOLING, bits=True)
    for precision in PRECISIONS:
        model = replace(loaded, model=copy.copy(loaded.model))  # of the same weights
        model.model.set_precision(precision)
        work[f"torch {precision}"] = partial(model.read, tokens, POOLING)
        work[f"torch {precision}, bits"] = partial(model.read, tokens, POOLING, bits=True)
    seconds = interleave(work, options.rounds, clock=process_time)
    scaled = {name: [1000 * s / len(texts) for s in each] for name, each in seconds.items()}
    return {
        name: {"median": median(each), "least": min(each), "most": max(each)}
        for name, each in scaled.items()
    }


def ratios(timed: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return how many times faster than torch in fp32 everything is, by the medians."""
    return {
        name: timed["torch fp32, bits" if name.endswith("bits") else "torch fp32"]["median"]
        / row["median"]
        for name, row in timed.items()
    }


def peak(path: str) -> float:
    """Return the most billion multiply-adds a second of a path's instructions, of five tries."""
    found = library.engine_library()
    assert found is not None
    rates = []
    for _ in range(5):
        start = process_time()
        products = found.engine_peak(library.PATHS.index(path), PEAK_REPEATS.get(path, 3_000_000))
        rates.append(products / (process_time() - start) / 1e9)
    return max(rates)


def of_peak(
    name: str,
    texts: list[str],
    timed: Mapping[str, Mapping[str, float]],
    peaks: Mapping[str, float],
) -> dict[str, float]:
    """Return what fraction of the peak each path of the engine reaches, without the bits.

    Counted: the products of a token, those with what is in two parts twice, with neither padding
    nor the functions of the gates. AVX2 multiplies 16 bits at a time.
    """
    engine = Engine.load(name)
    sizes = engine.architecture
    H, E = sizes.hidden_size, sizes.embedding_size
    tokens = sum(len(engine.encode(text)) for text in texts) * 1000 / len(texts)
    fractions = {}
    for path, most in peaks.items():
        for precision in ("exact", "fast"):
            parts = 2 if precision == "exact" and path != "avx2" else 1
            products = 5 * H * (parts * H + E) * tokens
            if (row := timed.get(f"engine {path} {precision}")) is not None:
                fractions[f"{path} {precision}"] = products / row["median"] / 1e9 / most
    return fractions


def compare(name: str, texts: list[str]) -> dict[str, Any]:
    """Return how the engine's answers differ from those of torch in fp32."""
    classifier = SentimentClassifier(load_model(name)).fit()
    theirs = classifier.predict_all(texts)
    rows: dict[str, Any] = {}
    for precision in PRECISIONS_OF_ENGINE:
        ours = SentimentClassifier(name, precision=precision).predict_all(texts)
        change = np.abs(ours.probabilities[:, 1] - theirs.probabilities[:, 1])
        changed = ours.choices != theirs.choices
        near = np.zeros(len(texts), bool)
        for threshold in (classifier.fitted.threshold, *classifier.unsure_):
            near |= np.abs(theirs.probabilities[:, 1] - threshold) <= NEAR
        differ = changed | (ours.unsure != theirs.unsure) | (ours.unfamiliar != theirs.unfamiliar)
        rows[precision] = {
            "texts": len(texts),
            "largest_change": float(change.max()),
            "labels_changed": int(changed.sum()),
            "labels_or_flags_changed_far_from_thresholds": int((differ & ~near).sum()),
        }
    return rows


def first_answer(name: str) -> dict[str, float]:
    """Return CPU seconds and peak memory of a process that reads one sentence."""
    code = FIRST_ANSWER.format(name=name, text=SHORT)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return {"cpu_seconds": seconds, "peak_mib": memory}


def short_text(options: Options) -> dict[str, float]:
    """Return CPU milliseconds for one short text, with everything loaded."""
    engine, loaded = Engine.load(options.model), load_model(options.model)
    tokens = [engine.encode(SHORT)]
    work: dict[str, Callable[[], object]] = {
        "engine": partial(engine.read, tokens, POOLING),
        "torch fp32": partial(loaded.read, tokens, POOLING),
    }
    seconds = interleave(work, options.short_rounds, clock=process_time)
    return {name: 1000 * median(each) for name, each in seconds.items()}


def time_floats(rounds: int) -> dict[str, float]:
    """Return microseconds for a token of an untrained fp32 model of 1,024 units, 128 texts.

    The engine's own loops, torch, and NumPy's products alone, of which there is nothing to spare.
    """
    H, texts, length = 1024, 128, 16
    model = build_model(ModelConfig(hidden_size=H), seed=0).eval()
    tokens = list(np.random.default_rng(0).integers(0, 256, (texts, length)))
    w_h, w_mh = np.ones((H, 4 * H), np.float32), np.ones((H, H), np.float32)
    rows = np.ones((texts, H), np.float32)

    def products() -> None:
        for _ in range(length):
            (rows @ w_mh) @ w_h

    with TemporaryDirectory() as folder:
        save_model(folder, model, text_profile("raw"), {})
        engine = Engine.load(folder)
    weights = model.prepare_weights()
    work: dict[str, Callable[[], object]] = {
        "engine": partial(engine.read, tokens, POOLING),
        "torch": partial(read, model, tokens, POOLING, weights=weights),
        "NumPy's products alone": products,
    }
    seconds = interleave(work, rounds, clock=process_time)
    return {name: 1e6 * median(each) / texts / length for name, each in seconds.items()}


def show(result: Mapping[str, Any]) -> None:
    """Print a short table."""
    for name, timed in result["seconds_per_1000"].items():
        print(f"{name}: CPU seconds per 1,000 texts (least to most), times torch's fp32")
        for label, row in timed.items():
            ratio = result["ratios"][name][label]
            spread = f"({row['least']:.2f} to {row['most']:.2f})"
            print(f"  {label:28} {row['median']:8.2f} {spread:20} {ratio:6.1f}")
        fractions = result["of_peak"][name].items()
        print("  of the peak: " + ", ".join(f"{path} {part:.0%}" for path, part in fractions))
        print(f"  against torch's fp32: {result['agreement'][name]}")
    print(f"first answers: {result['first_answer']}")
    print(f"one short text, CPU ms: {result['short_text_ms']}")
    print(f"fp32, 1,024 units, microseconds a token: {result['floats']}")


if __name__ == "__main__":
    command.run(main)
