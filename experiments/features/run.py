"""Which numbers of a model's state to take as features, and how to fit on them.

python -m experiments.features.run --model amazon_1024 --data DATA --work runs/features \\
    --output experiments/features/results/amazon_1024.json
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.options import Model
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from experiments.features.axes import describe_axes
from experiments.features.fits import WAYS, Way, fit_way
from experiments.features.titles import TITLE_MARK, score_titles
from experiments.studies import tested
from model.features import FeatureKind
from model.files.storage import write_json
from model.files.weights import LoadedModel, load_model
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.regression import Examples

POOLINGS = ("last", "mean", "max", "min")
STATES = ("cell", "hidden")
# Which of what was read stand side by side as one feature: names of `read_features`.
CHOICES = (
    *((f"{state} {pooling}",) for state, pooling in product(STATES, POOLINGS)),
    ("cell after a title's mark",),
    ("cell last", "cell mean"),
    ("cell mean", "hidden mean"),
    ("cell last", "cell mean", "cell max", "cell min"),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the features of one model on SST, MR and a part of IMDB."""

    model: Model = "amazon_1024"
    data: Path
    """The folder that holds a folder for each set: sst/, mr/, imdb/."""
    work: Path = Path("runs/features")
    """Where features are kept, so that an interrupted run goes on."""
    output: Path
    """The JSON file to write."""
    sets: tuple[Literal["sst", "mr", "imdb"], ...] = ("sst", "mr", "imdb")
    """Which sets are read."""
    most_texts: int = 2000
    """Most texts of IMDB for each of fitting, choosing and testing; SST and MR are read whole."""
    seed: int = 0
    """Draws the texts of IMDB, and the rotations."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    started = perf_counter()
    found = {name: compare(name, loaded, options) for name in options.sets}
    about = {"model": describe_model(loaded), "origin": describe_origin()}
    seconds = perf_counter() - started
    write_json(options.output, {"sets": found, "seed": options.seed, "seconds": seconds, **about})


def compare(name: str, loaded: LoadedModel, options: Options) -> dict[str, Any]:
    """Return the accuracies of every choice of features on a set, fitted in every way."""
    sets = SETS[name].read(options.data).sets
    if name == "imdb":  # of its longer texts a part
        sets = [part.drawn(options.most_texts, options.seed) for part in sets]
    features = read_features(sets, loaded, options.work, name)
    labels = [part.labels for part in sets]
    rows = []
    for choice, way in product(CHOICES, WAYS):
        chosen = [np.concatenate([features[n][i] for n in choice], axis=1) for i in range(3)]
        examples = [Examples(*pair) for pair in zip(chosen, labels, strict=True)]
        if way.penalty == "l2" or len(choice) == 1:  # of more features, L1 takes minutes
            rows.append({"features": list(choice), "fit": way.name, **told(way, examples)})
            accuracies = (f"{part} {rows[-1][f'{part}_accuracy']:.3f}" for part in ("val", "test"))
            print(f"{name:<5} {' + '.join(choice):<40} {way.name:<20} {' '.join(accuracies)}")
    mean = [Examples(features["cell mean"][i], labels[i]) for i in range(3)]
    return {
        "examples": [len(part.labels) for part in sets],
        "characters": sum(len(text) for part in sets for text in part.texts),
        "rows": rows,
        "axes": describe_axes(mean, options.seed),
        "titles": score_titles(loaded, sets[1], sets[2], options.most_texts),
    }


def read_features(
    sets: list[LabelledSet], loaded: LoadedModel, work: Path, name: str
) -> dict[str, list[np.ndarray]]:
    """Return each kind of feature by name: of train, val and test, float32 [N, H] each."""
    texts = [text for part in sets for text in part.texts]
    bounds = np.cumsum([len(part.texts) for part in sets])[:-1]
    found = {}

    def read(state: str, poolings: tuple[str, ...], ending: str, title: str) -> None:
        cache = FeatureCache(work, FeatureKind(state=state, pooling=poolings))
        sequences = [loaded.tokens(text + ending) for text in texts]
        pooled = np.split(cache.features(loaded.model, sequences, name), len(poolings), axis=1)
        for pooling, values in zip(poolings, pooled, strict=True):
            found[title.format(pooling)] = np.split(values, bounds)

    for state in STATES:
        read(state, POOLINGS, "", f"{state} {{}}")
    read("cell", ("last",), TITLE_MARK, "cell after a title's mark")
    return found


def told(way: Way, examples: list[Examples]) -> dict[str, Any]:
    """Return what a fit on train tells of test; its penalty is chosen on val."""
    fit = fit_way(way, *examples[:2])
    return {
        "c": fit.c,
        "val_accuracy": fit.val_accuracy,
        **tested(fit.accuracy(examples[2]), len(examples[2].labels)),
        "weights_above_zero": fit.used,
    }


if __name__ == "__main__":
    command.run(main)
