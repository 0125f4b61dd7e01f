"""How stable is the name of a sentiment neuron: four rules, over sets, labels and bits of a weight.

python -m experiments.neuron.naming --model amazon_1024 --bits 8 6 4 --data DATA
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.options import Model
from data_utils.provenance import describe_origin
from experiments.published_sets import SETS
from experiments.reproduction.one_unit import describe_unit, features_of
from experiments.tables import markdown, origins, percent
from model.files.quantization import dequantize, is_quantized, quantize
from model.files.storage import read_json, write_json
from model.files.weights import load_model
from model.layers.language_model import LanguageModel
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.neuron.ranking import Cuts, fit_cuts, rank_units
from transfer.plots import drawing, save_png
from transfer.regression import Examples, fit_regression, l1_regression
from transfer.unit_auc import per_feature_auc

RESULTS = Path(__file__).resolve().parent / "results" / "naming"
RULES = {
    "weight": "largest weight",
    "area": "largest area",
    "path": "first on the L1 path",
    "carried": "cut from another set",
}
OTHER = {"sst": "cr", "cr": "sst", "imdb": "sst"}  # where the cut comes from
TITLES = {"sst": "SST", "cr": "CR", "imdb": "IMDB"}
MODELS = {
    "amazon_1024": "`amazon_1024`",
    "amazon_subword_1024_870m": "subwords, former weights",
    "amazon_subword_1024_held": "subwords, trained onward, rate held",
    "amazon_subword_1024": "subwords, trained onward",
}
GROUPS = {"bytes": ("amazon_1024",), "subwords": tuple(MODELS)[1:]}
IMDB_TEXTS = 1000
HALVES = 20
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Name a model's sentiment neuron by four rules on three sets, its weights rounded."""

    model: Model
    name: Literal[*MODELS] | None = None  # type: ignore[valid-type]
    """Name of the result; absent, that of --model."""
    bits: tuple[Literal[16, 8, 6, 4], ...]
    """Bits of a weight; 16 is half precision, fewer are integers with a scale for each row."""
    data: Path
    """The folder that holds a folder for each set: sst/, cr/, imdb/."""
    work: Path = Path("runs/naming")
    """Folder where features are kept; an interrupted run continues."""
    results: Path = RESULTS
    """The folder of the results."""


def main() -> None:
    options = command.parse(Options, __doc__)
    path = options.results / f"{options.name or Path(options.model).name}.json"
    command.prepare_output(path)
    sets, cache = read_sets(options.data), FeatureCache(options.work)
    original = load_model(options.model, compute_dtype=torch.float32)
    result: dict[str, Any] = {"model": describe_model(original), "seed": SEED, "bits": {}}
    for bits in options.bits:
        loaded = load_model(options.model, compute_dtype=torch.float32)
        round_weights(loaded.model, bits)
        examples = {
            name: features_of(loaded, texts, cache, name) for name, (texts, _) in sets.items()
        }
        parts = {name: [examples[name].subset(rows) for rows in sets[name][1]] for name in sets}
        result["bits"][str(bits)] = name_units(parts)
        print(f"{path.stem}, {bits} bits: {result['bits'][str(bits)]['named']}", flush=True)
    write_json(path, {**result, "origin": describe_origin()})
    figure = options.results / "naming.png"
    with drawing(figure):
        save_png(draw(results_in(options.results)), figure)


def read_sets(data: Path) -> dict[str, tuple[LabelledSet, list[np.ndarray]]]:
    """Return each set's texts, and which are for fitting, choosing C and testing.

    Of IMDB a random part of its test split: a fifth of it is for choosing C, all of it for testing.
    """
    sets = {}
    for name in ("sst", "cr"):
        task = SETS[name].read(data)
        fold = task.folds[0]
        sets[name] = task.texts, [fold.train, fold.val, fold.test]
    imdb, rows = SETS["imdb"].read(data).sets[-1].drawn(IMDB_TEXTS, SEED), np.arange(IMDB_TEXTS)
    return {**sets, "imdb": (imdb, [rows[rows % 5 > 0], rows[rows % 5 == 0], rows])}


def round_weights(model: LanguageModel, bits: int) -> None:
    """Give the matrices the values that they have when saved in so many bits."""
    state = model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if bits == 16:
        matrices = {name: state[name] for name, shape in shapes.items() if is_quantized(shape)}
        rounded = state | {name: matrix.half().float() for name, matrix in matrices.items()}
    else:
        rounded = dequantize(quantize(state, bits), shapes, bits)
    model.load_state_dict(rounded)


def name_units(parts: dict[str, list[Examples]]) -> dict[str, Any]:
    """Return the units that the rules name on each set, and how good they are.

    parts: train, val and test of each set.
    """
    regressions = {name: fit_regression(train, val) for name, (train, val, _) in parts.items()}
    cuts = {name: fit_cuts(part[0]) for name, part in parts.items()}
    scores = {
        name: scores_of(part[0], regressions[name].positive_weights(), cuts[OTHER[name]])
        for name, part in parts.items()
    }
    named = {
        name: {rule: int(each[rule].argmax()) for rule in RULES} for name, each in scores.items()
    }
    ranking = rank_units(parts["sst"][0], regressions["sst"])
    units = sorted({unit for by_rule in named.values() for unit in by_rule.values()})
    return {
        "named": named,
        "best_three": {rule: best_three(scores["sst"][rule]) for rule in RULES},
        "halves": name_on_halves(parts, regressions["sst"].c),
        "c": regressions["sst"].c,
        "all_units": regressions["sst"].accuracy(parts["sst"][2]),
        "units": {str(unit): describe(unit, ranking.cuts, parts) for unit in units},
    }


def scores_of(train: Examples, weights: np.ndarray, carried: Cuts) -> dict[str, np.ndarray]:
    """Return what each rule takes the largest of, float64 [F].

    The first unit on the path of the L1 regression, as its penalty falls, is the one whose gradient
    is largest where all weights are zero: the one whose means in the two classes differ most.
    """
    positive = train.labels == 1
    apart = train.features[positive].mean(0) - train.features[~positive].mean(0)
    return {
        "weight": np.abs(weights),
        "area": np.abs(per_feature_auc(train.features, positive) - 0.5),
        "path": np.abs(apart),
        "carried": carried.accuracies(train),
    }


def best_three(scores: np.ndarray) -> list[list[float]]:
    """Return the units of the three largest scores, each with its score."""
    return [[int(unit), float(scores[unit])] for unit in np.argsort(-scores, kind="stable")[:3]]


def name_on_halves(parts: dict[str, list[Examples]], c: float) -> dict[str, list[int]]:
    """Return the units that the rules name on random halves of SST's labels, and of CR's."""
    random, found = np.random.default_rng(SEED), {rule: list[int]() for rule in RULES}
    for _ in range(HALVES):
        halves = []
        for whole in (parts["sst"][0], parts[OTHER["sst"]][0]):
            count = len(whole.labels)
            halves.append(whole.subset(random.permutation(count)[: count // 2]))
        weights = l1_regression(c).fit(halves[0].features, halves[0].labels).coef_[0]
        for rule, scores in scores_of(halves[0], weights, fit_cuts(halves[1])).items():
            found[rule].append(int(scores.argmax()))
    return found


def describe(unit: int, cuts: Cuts, parts: dict[str, list[Examples]]) -> dict[str, Any]:
    """Return a unit's accuracy at its cut from SST's train split, and its area."""
    rule = {"unit": unit, "cut": float(cuts.values[unit]), "polarity": int(cuts.polarity[unit])}
    return {**rule, **{name: describe_unit(rule, parts[name][2]) for name in ("sst", "imdb")}}


def results_in(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the results that are there, by the name of the model."""
    paths = {name: folder / f"{name}.json" for name in MODELS}
    return {name: read_json(path) for name, path in paths.items() if path.is_file()}


def draw(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw the unit that each rule names, in the colour of its area on SST's test split."""
    rows = [(name, bits, each) for name, r in results.items() for bits, each in r["bits"].items()]
    columns = [(of, rule) for of in OTHER for rule in RULES]
    units = [[each["named"][of][rule] for of, rule in columns] for *_, each in rows]
    areas = [
        [each["units"][str(unit)]["sst"]["area"] for unit in line]
        for line, (*_, each) in zip(units, rows, strict=True)
    ]
    figure = Figure(figsize=(9.0, 1.9 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(areas, cmap="viridis", vmin=0.5, vmax=0.9, aspect="auto")
    for y, line in enumerate(units):
        for x, unit in enumerate(line):
            light = areas[y][x] < 0.75
            axes.text(
                x, y, str(unit), ha="center", va="center", color="white" if light else "black"
            )
    axes.set_yticks(
        range(len(rows)), [f"{MODELS[name].strip('`')}, {bits} bits" for name, bits, _ in rows]
    )
    axes.set_xticks(
        range(len(columns)), [RULES[rule] for _, rule in columns], rotation=40, ha="right"
    )
    for place, of in enumerate(OTHER):
        middle = len(RULES) * (place + 0.5) - 0.5
        axes.text(middle, -0.75, f"named on {TITLES[of]}", ha="center")
        axes.axvline(middle + len(RULES) / 2, color="white", linewidth=4)
    figure.colorbar(image, label="area under the ROC curve, SST test")
    return figure


def table() -> str:
    """Return how often each rule names the same unit, and how good the named units are on SST."""
    results, rows = results_in(), []
    for title, models in GROUPS.items():
        found = [e for name in models if name in results for e in results[name]["bits"].values()]
        for rule, words in RULES.items():
            by_set = {of: [each["named"][of][rule] for each in found] for of in OTHER}
            names = by_set["sst"]
            unit, times = Counter(names).most_common(1)[0]
            named = list(zip(names, found, strict=True))
            halves = [np.equal(each["halves"][rule], name) for name, each in named]
            tested = [each["units"][str(name)]["sst"] for name, each in named]
            rows.append([
                f"{title}, {words}",
                f"{unit}, {times} of {len(found)}",
                *(f"{np.equal(by_set[of], names).sum()} of {len(found)}" for of in ("cr", "imdb")),
                percent(float(np.mean(halves))),
                spread([100 * each["test_accuracy"] for each in tested], 1),
                spread([each["area"] for each in tested], 3),
            ])  # fmt: skip
    head = ["rule, on SST", "commonest unit", "CR names the same", "IMDB names the same"]
    head += ["half of the labels do, %", "accuracy on SST's test split, %", "area"]
    return f"{markdown(head, rows)}\n\n{origins(results)}"


def spread(values: list[float], digits: int) -> str:
    """Return the median of values, and the lowest and highest."""
    middle, low, high = (f"{n:.{digits}f}" for n in (median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    command.run(main)
