"""How far the best unit of a model stands out: its AUC and the second unit's on three sets.

python -m experiments.neuron.standing_out runs/standing/* --data DATA --corpora pieces reviews
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure

from configs import command
from data_utils.corpus import Corpus, open_corpus
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from experiments.published_sets import SETS, joined
from experiments.reproduction.one_unit import features_of
from experiments.tables import markdown, origins, spread
from model.bounds import Argument
from model.files.storage import read_json, write_json
from model.files.weights import LoadedModel, load_model
from model.inference.features import FeatureKind, Pooling
from training.evaluation import evaluate_split
from training.parallel.distributed import World
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.neuron.ranking import area_difference
from transfer.plots import drawing, save_png
from transfer.regression import Examples, fit_regression
from transfer.unit_auc import per_feature_auc

RESULTS = Path(__file__).resolve().parent / "results" / "standing_out"
RUNS = {
    "base": "base",
    "dropout_0.1": "dropout 0.1 at the decoder",
    "dropout_0.2": "dropout 0.2 at the decoder",
    "untitled": "no titles",
    "natural": "fewer negative reviews",
    "bytes": "bytes",
    "student_0.5": "half from `amazon_subword_1024`",
    "student_of_two": "half from two seeds of the base",
    "base_longer": "base, 2.3 times as much text",
    "onward": "the second training",
    "all": "all reviews",
    "short": "reviews of at most 400 bytes",
    "films": "reviews of films",
    "sentences": "sentences of the reviews of films",
    "mean": "mean of the second training (twice) and the two rows above",
    "mixed": "Amazon's reviews, those of films, and their sentences; longer",
    "mean_with_mixed": "mean of the second training and the first seed of the row above",
    "student_all": "all reviews, half from two trainings",
    "all_longer": "all reviews, twice as much text",
    "mean_of_four": "mean of the second training (three times) and all three seeds",
}
PAGES = {
    "standing_out": ("base", "dropout_0.1", "dropout_0.2", "untitled", "natural", "bytes"),
    "student": ("base", "student_of_two", "student_0.5", "base_longer"),
    "student_1024": ("all", "student_all", "all_longer", "mean_with_mixed"),
    "last_text": (
        "onward",
        "all",
        "short",
        "films",
        "sentences",
        "mean",
        "mixed",
        "mean_with_mixed",
        "mean_of_four",
    ),
}
TITLES = {"sst": "SST", "cr": "CR", "imdb": "IMDB"}
IMDB_TEXTS = 1000
SEED = 0
POOLINGS: tuple[Pooling, ...] = ("last", "mean")
KIND = FeatureKind(pooling=POOLINGS)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the AUC of the two best units of each run."""

    runs: Annotated[tuple[Path, ...], Argument(positional=True)]
    """Run directories of main.py, each named RUN_seed_NUMBER; those with a result are skipped."""
    data: Path
    """The folder that holds a folder for each set: sst/, cr/, imdb/."""
    corpora: tuple[Path, ...]
    """Corpora of the same valid split, one of each vocabulary."""
    work: Path = Path("runs/standing_out")
    """Folder where features are kept; an interrupted run continues."""
    results: Path = RESULTS
    """The folder of the results."""


def main() -> None:
    options = command.parse(Options, __doc__)
    corpora = [open_corpus(path) for path in options.corpora]
    by_vocabulary = {corpus.tokenizer.vocabulary_size: corpus for corpus in corpora}
    sets = read_sets(options.data)
    for run in options.runs:
        path = options.results / f"{run.name}.json"
        if not path.is_file():
            command.prepare_output(path)
            loaded = load_model(run, compute_dtype=torch.float32)
            cache = FeatureCache(options.work, KIND)
            parts = {}
            for name, (texts, rows) in sets.items():
                examples = features_of(loaded, texts, cache, name)
                parts[name] = [examples.subset(each) for each in rows]
            loaded.model.set_precision("fp32")
            result = {"bits": bits_of(loaded, by_vocabulary), **describe(parts)}
            about = {"model": describe_model(loaded), "origin": describe_origin()}
            write_json(path, {**result, **about})
            print(f"{run.name}: {result['bits']:.3f} bits, {result['areas']['sst']}", flush=True)
    for page in PAGES:
        figure = options.results / f"{page}.png"
        with drawing(figure):
            save_png(draw(page, options.results), figure)


def read_sets(data: Path) -> dict[str, tuple[LabelledSet, list[np.ndarray]]]:
    """Return each set's texts, and which are for choosing units, for choosing C, and for testing.

    Only SST has texts for C. CR is cut into random halves; IMDB gives a random part of each split.
    """
    sst, cr = (SETS[name].read(data) for name in ("sst", "cr"))
    (fold,) = sst.folds
    halves = np.array_split(np.random.default_rng(SEED).permutation(len(cr.texts.texts)), 2)
    splits = SETS["imdb"].read(data).sets
    imdb = joined([split.drawn(IMDB_TEXTS, SEED) for split in (splits[0], splits[-1])])
    return {
        "sst": (sst.texts, [fold.train, fold.val, fold.test]),
        "cr": (cr.texts, halves),
        "imdb": (imdb, np.array_split(np.arange(2 * IMDB_TEXTS), 2)),
    }


def bits_of(loaded: LoadedModel, corpora: dict[int, Corpus]) -> float:
    """Return the bits per character on the valid split."""
    split = corpora[loaded.model.config.resolved_vocabulary_size].splits["valid"]
    bits, _ = evaluate_split(loaded.model, split, lanes=64, world=World(0, 1, torch.device("cpu")))
    return bits


def describe(parts: dict[str, list[Examples]]) -> dict[str, Any]:
    """Return the accuracy of all units on SST, and the AUC of the two best units on every set.

    Both are given for each pooling. parts: each set as read_sets splits it, features [N, 2 H].
    """
    sst = parts["sst"]
    units = sst[0].features.shape[1] // len(POOLINGS)
    of = {name: slice(n * units, (n + 1) * units) for n, name in enumerate(POOLINGS)}
    accuracies = {}
    for pooling, columns in of.items():
        train, val, test = (Examples(each.features[:, columns], each.labels) for each in sst)
        accuracies[pooling] = fit_regression(train, val).accuracy(test)
    areas = {
        name: {p: best_two(part[0], part[-1], columns) for p, columns in of.items()}
        for name, part in parts.items()
    }
    return {"all_units": accuracies, "areas": areas}


def best_two(train: Examples, test: Examples, columns: slice) -> dict[str, Any]:
    """Return the AUC on test of the two units with the largest AUC on train."""
    on_train = per_feature_auc(train.features[:, columns], train.labels == 1) - 0.5
    units = np.argsort(-np.abs(on_train), kind="stable")[:2]
    values = test.features[:, columns][:, units] * np.sign(on_train[units])
    best, second = values.T
    return {
        "units": units.tolist(),
        "areas": per_feature_auc(values, test.labels == 1).tolist(),
        **area_difference(best, second, test.labels),
    }


def results_of(page: str, folder: Path = RESULTS) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each run of a page, a seed each."""
    paths = {name: sorted(folder.glob(f"{name}_seed_*.json")) for name in PAGES[page]}
    return {name: [read_json(path) for path in found] for name, found in paths.items() if found}


def table(page: str, pooling: str, folder: Path = RESULTS) -> str:
    """Return bits and AUC of each run: the median of its seeds, the lowest and the highest."""
    rows, results = [], results_of(page, folder)
    for name, seeds in results.items():
        cells = [spread([each["bits"] for each in seeds], 3)]
        cells.append(spread([100 * each["all_units"][pooling] for each in seeds], 1))
        for of in TITLES:
            found = [each["areas"][of][pooling] for each in seeds]
            best, second = zip(*(each["areas"] for each in found), strict=True)
            middle = f"{median(best):.3f}, {median(second):.3f}"
            cells.append(f"{middle}; {spread([each['difference'] for each in found], 3)}")
        rows.append([RUNS[name], *cells])
    head = ["run", "valid, bits per character", "SST, all units, %"]
    head += [f"{TITLES[of]}, AUC of best and second; difference" for of in TITLES]
    named = {f"{name} {seed}": each for name in results for seed, each in enumerate(results[name])}
    return f"{markdown(head, rows)}\n\n{origins(named)}"


def draw(page: str, folder: Path) -> Figure:
    """Draw the AUC of the best and the second unit of every run, a line for each seed."""
    results = results_of(page, folder)
    figure = Figure(figsize=(10.0, 1.5 + 0.9 * len(results)), layout="constrained")
    grid = figure.subplots(len(POOLINGS), len(TITLES), sharex=True, sharey=True, squeeze=False)
    for pooling, line in zip(POOLINGS, grid, strict=True):
        for of, axes in zip(TITLES, line, strict=True):
            for place, seeds in enumerate(results.values()):
                for number, each in enumerate(seeds):
                    best, second = each["areas"][of][pooling]["areas"]
                    y = place + 0.15 * (number - 1)
                    axes.plot([second, best], [y, y], color="0.7", zorder=1)
                    axes.scatter([best], [y], color="C0", s=18, zorder=2)
                    axes.scatter([second], [y], color="C1", s=18, zorder=2)
            axes.set_title(f"{TITLES[of]}, {pooling} state", fontsize="medium")
            axes.set_yticks(range(len(results)), [RUNS[name].replace("`", "") for name in results])
    grid[0, 0].invert_yaxis()
    figure.supxlabel("AUC: best unit (blue), second unit (orange)")
    return figure


if __name__ == "__main__":
    command.run(main)
