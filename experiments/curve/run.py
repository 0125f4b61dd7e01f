"""When sentiment comes: what a run knows at each of its checkpoints.

python -m experiments.curve.run runs/curve_1024 --data DATA --points 40 \\
    --output experiments/curve/results/units_1024.json
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from tqdm import tqdm

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from experiments.studies import POOLINGS, read_features, told
from model.bounds import Bound
from model.errors import InputError
from model.files.storage import read_json, step_folders, write_json
from model.files.weights import LoadedModel, load_model, model_digest
from model.language_model import untrained_like
from model.units.unit_traces import read_texts
from training.metrics import read_rows
from training.runs.run_directory import TRAINING_FILE
from transfer.neuron.ranking import fit_cuts
from transfer.neuron.top_activations import jumps_of
from transfer.regression import Examples
from transfer.separation import areas_under_curve

# Most texts to fit on, to choose on and to test on; SST is read whole.
PARTS = {"sst": None, "mr": (2000, 500, 2000), "imdb": (800, 200, 1000)}
SEED = 0  # draws the parts, and the untrained model
FEWEST = 25  # texts that hold a word
WORDS = 20  # of each class
LETTERS = re.compile(r"(?:[^\W\d_]|')+")


@dataclass(frozen=True)
class Options:
    """Score an untrained model and a run's checkpoints on SST and on parts of MR and IMDB."""

    run: Annotated[Path, tyro.conf.Positional]
    """The directory of a run that kept its checkpoints (checkpoint.keep)."""
    data: Path
    """The folder that holds a folder for each set."""
    output: Path
    """The JSON file to write; a file that is there is gone on with."""
    points: Annotated[int | None, Bound(min=2)] = None
    """Most checkpoints to score, spread evenly over the logarithm of the characters that the model
    had read. Default: all."""


def main() -> None:
    options = command.parse(Options, __doc__)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    checkpoints = checkpoints_of(options.run)
    sets = {name: read_part(name, options.data) for name in PARTS}
    last = load(checkpoints[max(checkpoints)])
    followed = followed_unit(last, sets["sst"])
    words = telling_words(sets["sst"][0])
    about = {
        "run": options.run.resolve().name,
        "last": {"characters": max(checkpoints), "digest": model_digest(last.model)},
        "unit": followed.unit,
        "polarity": followed.polarity,
        "words": words,
    }
    found = begun(options.output, about)
    rows = read_rows(options.run / "metrics.jsonl")
    done = {point["characters"] for point in found["points"]}
    blank = replace(last, model=untrained_like(last.model, SEED))
    chosen = [0, *spread(sorted(checkpoints), options.points)]  # 0: untrained
    for characters in tqdm(chosen, desc="checkpoints", disable=None):
        if characters in done:
            continue
        loaded = load(checkpoints[characters]) if characters else blank
        point = {
            "characters": characters,
            **bits_at(rows, characters),
            **score(loaded, sets, followed),
            "words": word_jumps(loaded, sets["sst"][0], words, followed.unit),
        }
        found["points"].append(point)
        write_json(options.output, {**found, "origin": describe_origin()})


def begun(output: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Return the curve that an interrupted command has written, or one without points.

    Raises:
        InputError: the file holds the curve of another run, or of other checkpoints.
    """
    if not output.exists():
        return {**about, "points": []}
    found = read_json(output)
    if other := [key for key in about if found.get(key) != about[key]]:
        raise InputError(
            f"{output}: holds another curve (another {', '.join(other)}); write to another file"
        )
    return dict(found)


def checkpoints_of(run: Path) -> dict[int, Path]:
    """Return a run's checkpoints by the characters that the model had read."""
    folders = step_folders(run / "checkpoint")
    if not folders:
        raise InputError(f"{run}: has no checkpoints")
    return {
        read_json(folder / TRAINING_FILE)["progress"]["characters"]: folder for folder in folders
    }


def spread(characters: Sequence[int], most: int | None) -> list[int]:
    """Return at most so many of them, first and last included, evenly spread by their logarithm."""
    if most is None:
        return list(characters)
    wanted = np.geomspace(characters[0], characters[-1], most)
    return sorted({min(characters, key=lambda have: abs(have - want)) for want in wanted})


@dataclass(frozen=True)
class Followed:
    """The unit that is best at the last checkpoint, and its values there on SST's test texts."""

    unit: int
    polarity: int  # 1 where high is positive, else -1
    values: np.ndarray  # float32 [N], its mean over each text


def load(folder: Path) -> LoadedModel:
    """Load the model of a checkpoint, with products in bf16: half the time, where that is fast."""
    return load_model(folder, compute_dtype=torch.bfloat16)


def bits_at(rows: Sequence[Mapping[str, Any]], characters: int) -> dict[str, float]:
    """Return the last bits per character before so many characters."""
    keys = ("train_bits_per_character", "valid_bits_per_character")
    read = [row for row in rows if row["characters"] <= characters]
    return {key: row[key] for row in read for key in keys if key in row}


def read_part(name: str, data: Path) -> list[LabelledSet]:
    """Return train, val and test of a set, or the part of each that is read."""
    sets, most = SETS[name].read(data).sets, PARTS[name]
    if most is None:
        return sets
    rng = np.random.default_rng(SEED)
    return [
        part.subset(np.sort(rng.choice(len(part.labels), min(count, len(part.labels)), False)))
        for part, count in zip(sets, most, strict=True)
    ]


def followed_unit(last: LoadedModel, sst: list[LabelledSet]) -> Followed:
    """Return the unit whose mean is best on train at the last checkpoint."""
    train, _, test = read_features(last, sst)["mean"]
    unit = int(fit_cuts(train).accuracies(train).argmax())
    values = test.features[:, unit]
    rises = np.corrcoef(train.features[:, unit], train.labels)[0, 1]
    return Followed(unit, 1 if rises > 0 else -1, values)


def score(
    loaded: LoadedModel, sets: Mapping[str, list[LabelledSet]], followed: Followed
) -> dict[str, Any]:
    """Return a checkpoint's accuracies on each set, and correlations with the followed unit."""
    features = {name: read_features(loaded, parts) for name, parts in sets.items()}
    now = features["sst"]["mean"][2].features  # [N, H]
    likeness = correlations(now, followed.values)
    return {
        "sets": {
            name: {pooling: told(of_set[pooling]) for pooling in POOLINGS}
            for name, of_set in features.items()
        },
        "selectivity": {name: selectivity(of_set["mean"]) for name, of_set in features.items()},
        "followed": {
            "correlation": float(likeness[followed.unit]),
            "nearest_unit": int(np.abs(likeness).argmax()),
            "nearest_correlation": float(np.abs(likeness).max()),
        },
    }


def selectivity(sets: Sequence[Examples]) -> dict[str, Any]:
    """Return the two units with the largest areas under the ROC curve on train, and those on test.

    One half is chance. A sentiment neuron is a unit far above the next.
    """
    train, _, test = sets
    on_train = areas_under_curve(train.features, train.labels == 1)
    best = np.argsort(-np.abs(on_train - 0.5), kind="stable")[:2]
    on_test = areas_under_curve(test.units(best).features, test.labels == 1)
    areas = np.where(on_train[best] > 0.5, on_test, 1 - on_test)
    return {"units": best.tolist(), "areas": areas.tolist()}


def correlations(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return float64 [H]: each unit's correlation with values [N]; 0 for a constant unit."""
    centered = features.astype(np.float64) - features.mean(0)
    against = values.astype(np.float64) - values.mean()
    scale = np.sqrt((centered**2).sum(0) * (against**2).sum())
    return np.divide(centered.T @ against, scale, out=np.zeros(len(scale)), where=scale > 0)


def telling_words(train: LabelledSet) -> dict[str, float]:
    """Return the words that tell most of the label, with the log of their odds, best last.

    A word counts once in a text. One is added to each count, as a word of one class alone has no
    finite odds.
    """
    counts = [Counter[str](), Counter[str]()]
    for text, label in zip(train.texts, train.labels, strict=True):
        counts[label].update(set(LETTERS.findall(text.lower())))
    common = [word for word in counts[0] | counts[1] if counts[0][word] + counts[1][word] >= FEWEST]
    odds = {word: float(np.log((counts[1][word] + 1) / (counts[0][word] + 1))) for word in common}
    ordered = sorted(odds, key=odds.__getitem__)
    return {word: odds[word] for word in [*ordered[:WORDS], *ordered[-WORDS:]]}


def word_jumps(
    loaded: LoadedModel, train: LabelledSet, words: Sequence[str] | dict[str, float], unit: int
) -> dict[str, dict[str, Any]]:
    """Return for each word how far it moves the unit on average, and the mean's standard error.

    Every word is read where it stands in at most FEWEST texts, the first ones that hold it.
    """
    rows = {word: rows_with(train, word) for word in words}
    wanted = sorted({row for of_word in rows.values() for row in of_word})
    traces = read_texts(loaded, [train.texts[row] for row in wanted], [unit]).traces
    changes: dict[str, list[float]] = {word: [] for word in words}
    for trace in traces:
        for jump in jumps_of(trace):
            word = trace.text[jump.start : jump.stop].strip().lower()
            if word in changes:
                changes[word].append(jump.change)
    return {word: mean_change(found) for word, found in changes.items()}


def rows_with(train: LabelledSet, word: str) -> list[int]:
    """Return the first FEWEST texts that hold a word."""
    holds = re.compile(rf"(?<!\S){re.escape(word)}(?!\S)", re.IGNORECASE)
    return [row for row, text in enumerate(train.texts) if holds.search(text)][:FEWEST]


def mean_change(found: Sequence[float]) -> dict[str, Any]:
    """Return the mean of changes, its standard error, and how many there are."""
    if len(found) < 2:
        return {"mean": None, "error": None, "count": len(found)}
    values = np.array(found)
    error = float(values.std(ddof=1) / len(values) ** 0.5)
    return {"mean": float(values.mean()), "error": error, "count": len(values)}


if __name__ == "__main__":
    command.run(main)
