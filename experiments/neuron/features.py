"""Which numbers of a model's state to take as features, and how to fit on them.

python -m experiments.neuron.features --model amazon_1024 --data DATA --work runs/features \\
    --output experiments/neuron/results/features/amazon_1024.json
"""

from collections.abc import Sequence, Set
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
from experiments.neuron.fits import WAYS, Way, fit_way, tested
from experiments.neuron.titles import TITLE_MARK, score_titles
from experiments.published_sets import SETS
from model.errors import InputError
from model.files.storage import write_json
from model.files.weights import LoadedModel, load_model
from model.inference.features import FeatureKind, Pooling
from model.layers.config import Precision
from model.state import StateName
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.regression import Examples

POOLINGS: tuple[Pooling, ...] = ("last", "mean", "max", "min")
STATES: tuple[StateName, ...] = ("cell", "hidden")
AFTER_MARK = "cell after a title's mark"
# Which of what was read stand side by side as one feature: names of `read_features`.
CHOICES = (
    *((f"{state} {pooling}",) for state, pooling in product(STATES, POOLINGS)),
    (AFTER_MARK,),
    ("cell last", "cell mean"),
    ("cell mean", "hidden mean"),
    ("cell last", "cell mean", "cell max", "cell min"),
)
BY_NAME = {" + ".join(choice): choice for choice in CHOICES}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the features of one model on SST, MR and a part of IMDB."""

    model: Model = "amazon_1024"
    data: Path
    """The folder that holds a folder for each set: sst/, mr/, imdb/."""
    output: Path
    """The JSON file to write."""
    sets: tuple[Literal["sst", "mr", "imdb"], ...] = ("sst", "mr", "imdb")
    """Which sets are read."""
    beside: tuple[Model, ...] = ()
    """Further models, whose features of the same kind stand beside those of the first."""
    work: Path = Path("runs/features")
    """Where features are kept, so that an interrupted run goes on."""
    most_texts: int = 2000
    """Most texts of IMDB for each of fitting, choosing and testing; SST and MR are read whole."""
    only: tuple[str, ...] = ()
    """Features to compare, as the tables name them, and nothing else: "cell mean", or
    "cell last + cell mean"."""
    precision: Precision = "fp32"
    """Number format of the model's matrix products."""
    seed: int = 0
    """Draws the texts of IMDB."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.only if name not in BY_NAME]:
            raise InputError(f"--only: {unknown[0]!r} is none of {', '.join(BY_NAME)}")
        if self.beside and not self.only:
            raise InputError("--beside: name the features with --only")

    @property
    def models(self) -> tuple[str, ...]:
        """The model, and those beside it."""
        return self.model, *self.beside

    @property
    def choices(self) -> list[tuple[str, ...]]:
        """The features to compare."""
        return [BY_NAME[name] for name in self.only] or list(CHOICES)

    @property
    def wanted(self) -> set[str]:
        """What these features are made of."""
        return {part for choice in self.choices for part in choice}


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    loaded = [load_model(name, compute_dtype=torch.float32) for name in options.models]
    for each in loaded:
        each.model.set_precision(options.precision)
    started = perf_counter()
    found = {name: compare(name, loaded, options) for name in options.sets}
    first, *beside = map(describe_model, loaded)
    about = {"model": first, **({"beside": beside} if beside else {}), "origin": describe_origin()}
    seconds = perf_counter() - started
    write_json(options.output, {"sets": found, "seed": options.seed, "seconds": seconds, **about})


def compare(name: str, models: Sequence[LoadedModel], options: Options) -> dict[str, Any]:
    """Return the accuracies of every choice of features on a set, fitted in every way."""
    loaded = models[0]
    sets = read_sets(name, options.data, options.most_texts, options.seed)
    features = read_side_by_side(sets, models, options.work, name, options.wanted)
    labels = [part.labels for part in sets]
    rows = []
    for choice, way in product(options.choices, WAYS):
        chosen = [np.concatenate([features[n][i] for n in choice], axis=1) for i in range(3)]
        examples = [Examples(*pair) for pair in zip(chosen, labels, strict=True)]
        if way.penalty == "l2" or len(choice) == 1:  # of more features, L1 takes minutes
            rows.append({"features": list(choice), "fit": way.name, **told(way, examples)})
            accuracies = (f"{part} {rows[-1][f'{part}_accuracy']:.3f}" for part in ("val", "test"))
            print(f"{name:<5} {' + '.join(choice):<40} {way.name:<20} {' '.join(accuracies)}")
    found = {
        "examples": [len(part.labels) for part in sets],
        "characters": sum(len(text) for part in sets for text in part.texts),
        "rows": rows,
    }
    if not options.only:
        found["titles"] = score_titles(loaded, sets[1], sets[2], options.most_texts)
    return found


def read_sets(name: str, data: Path, most_texts: int, seed: int) -> list[LabelledSet]:
    """Return train, val and test of a set; of IMDB's longer texts a part."""
    sets = SETS[name].read(data).sets
    return [part.drawn(most_texts, seed) for part in sets] if name == "imdb" else sets


def by_part(values: np.ndarray, sets: list[LabelledSet]) -> list[np.ndarray]:
    """Return the values of each part's texts, from those of all texts, one part after the other."""
    return np.split(values, np.cumsum([len(part.texts) for part in sets])[:-1])


def read_side_by_side(
    sets: list[LabelledSet],
    models: Sequence[LoadedModel],
    work: Path,
    name: str,
    wanted: Set[str],
) -> dict[str, list[np.ndarray]]:
    """Return what is wanted by name, each of all models: of each part float32 [N, sum of H]."""
    of_each = [read_features(sets, loaded, work, name, wanted) for loaded in models]
    return {
        feature: [
            np.concatenate([of_model[feature][part] for of_model in of_each], axis=1)
            for part in range(len(sets))
        ]
        for feature in of_each[0]
    }


def read_features(
    sets: list[LabelledSet], loaded: LoadedModel, work: Path, name: str, wanted: Set[str]
) -> dict[str, list[np.ndarray]]:
    """Return the states that are wanted by name: of train, val and test, float32 [N, H] each."""
    texts = [text for part in sets for text in part.texts]
    found = {}

    def read(state: StateName, poolings: tuple[Pooling, ...], ending: str, title: str) -> None:
        cache = FeatureCache(work, FeatureKind(state=state, pooling=poolings))
        sequences = [loaded.tokens(text + ending) for text in texts]
        pooled = np.split(cache.features(loaded.model, sequences, name), len(poolings), axis=1)
        for pooling, values in zip(poolings, pooled, strict=True):
            found[title.format(pooling)] = by_part(values, sets)

    for state in STATES:
        if any(part.startswith(state) for part in wanted - {AFTER_MARK}):
            read(state, POOLINGS, "", f"{state} {{}}")
    if AFTER_MARK in wanted:
        read("cell", ("last",), TITLE_MARK, AFTER_MARK)
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
