"""One unit on IMDB, with few labels, and its value over one long review.

python -m experiments.neuron.long_texts --data DATA --work runs/reproduction
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from configs import command
from data_utils.options import Model
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from model.files.storage import write_json
from model.files.weights import load_model
from model.units.unit_traces import read_texts
from transfer.baselines import majority_accuracy
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.neuron.label_efficiency import label_efficiency, stratified_order
from transfer.neuron.ranking import Cuts, area_interval, fit_cuts
from transfer.plots import draw_by_labels, draw_histogram, save_png, unit_histogram
from transfer.regression import Examples, accuracy_interval
from transfer.unit_auc import per_feature_auc

RESULTS = Path(__file__).resolve().parent / "results"
COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000)
TESTED = 5000  # of the test reviews: refitted bags of words are slow on all of them
SEED = 0
# Written for this figure; from no data set.
REVIEW = """\
I bought this coffee machine in March, after my old one had died of old age. The box was heavy \
and the manual is printed in letters that a mouse would need glasses for. Setting it up took most \
of a Saturday morning, and the first three cups tasted of rubber. The water tank leaks if you \
fill it to the line. I called the company twice and waited for forty minutes each time, and the \
second person hung up on me. I was ready to send it back. Then my neighbour showed me that a \
small ring at the bottom of the tank had been put in the wrong way round. Since then not a drop \
has been lost. And the coffee! It is rich, hot, and ready in half a minute. The foam is thick and \
sweet, better than in the café across the street. It is quiet enough that nobody wakes up. \
Cleaning it is easy, one rinse a week. My sister loves it so much that she got one for herself. \
The only thing I would change is the short cable. After eight months it works perfectly every \
day, and I am very happy with it. I would buy it again, but I hope that they fire whoever answers \
that telephone, because the service is terrible."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Test one unit on IMDB with few labels, and trace it over one long review."""

    model: Model = "amazon_subword_1024"
    unit: int = 410
    """The unit, known beforehand."""
    data: Path
    """The folder that holds imdb/ and sst/."""
    work: Path = Path("runs/reproduction")
    """Folder of the features."""
    draws: int = 5
    """Random draws for each number of labels."""


def main() -> None:
    options = command.parse(Options, __doc__)
    folder = RESULTS / options.model
    loaded = load_model(options.model, compute_dtype=torch.float32)
    result: dict[str, Any] = {"unit": options.unit, "model": describe_model(loaded)}
    values = read_texts(loaded, [REVIEW], [options.unit]).traces[0].values[:, 0]
    result["review"] = {"text": REVIEW, "values": [round(float(v), 3) for v in values]}
    save_png(draw_review(REVIEW, values, options.unit), folder / "long_review.png")
    result |= few_labels(options, loaded, folder)
    origin = describe_origin()
    write_json(folder / "long_texts.json", {**result, "config": {"seed": SEED}, "origin": origin})


def few_labels(options: Options, loaded: Any, folder: Path) -> dict[str, Any]:
    """Return the unit's values by label on all of IMDB's test set, and accuracies by labels."""
    loaded.model.set_precision("int8")
    cache = FeatureCache(options.work)
    train, val, test = SETS["imdb"].read(options.data).sets
    order = stratified_order(train.labels, SEED)[: COUNTS[-1]]
    train, val = train.subset(order), val.subset(stratified_order(val.labels, SEED)[:1000])
    sets = [train, val, test]
    examples = [
        Examples(
            cache.features(loaded.model, list(map(loaded.tokens, part.texts)), name), part.labels
        )
        for name, part in zip(("train", "val", "test"), sets, strict=True)
    ]
    histogram = unit_histogram(options.unit, examples[2])
    save_png(draw_histogram(histogram, options.unit), folder / "imdb_histogram.png")
    rows = np.sort(stratified_order(test.labels, SEED)[:TESTED])
    sets[2], part = test.subset(rows), examples[2].subset(rows)
    curves = label_efficiency(
        sets, [*examples[:2], part], options.unit, counts=COUNTS, draws=options.draws, seed=SEED
    )
    baselines = {"majority": {"test_accuracy": majority_accuracy(train, sets[2])}}
    save_png(draw_by_labels(curves, baselines, finetuned=False), folder / "imdb_by_labels.png")
    return {
        "histogram": histogram,
        "all_test": described(options.unit, examples),
        "by_labels": curves,
        "examples": {"train": len(train.texts), "val": len(val.texts), "test": TESTED},
    }


def described(unit: int, examples: list[Examples]) -> dict[str, Any]:
    """Return accuracy and area of the unit on all test reviews, its cut from the train reviews."""
    cuts = fit_cuts(examples[0])
    cut = Cuts(cuts.values[[unit]], cuts.polarity[[unit]])
    alone = examples[2].units([unit])
    right, values = float(cut.accuracies(alone)[0]), alone.features[:, 0]
    return {
        "tested": len(alone.labels),
        "test_accuracy": right,
        "test_interval": accuracy_interval(right, len(alone.labels)),
        "area": float(per_feature_auc(values[:, None], alone.labels == 1)[0]),
        "area_interval": area_interval(values, alone.labels),
    }


def draw_review(text: str, values: np.ndarray, unit: int) -> Figure:
    """Draw the unit under every character, and the ends of sentences."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(values, linewidth=1.0, color="#3b82c4")
    axes.axhline(0, linewidth=0.5, color="black")
    starts = [0, *(place + 2 for place, letter in enumerate(text[:-2]) if letter in ".!")]
    for number, start in enumerate(starts, start=1):
        axes.axvline(start, linewidth=0.4, color="#8a8f98")
        axes.annotate(str(number), (start + 3, values.max()), fontsize=7, color="#8a8f98")
    axes.set(xlabel="character; numbers: sentences", ylabel=f"cell state of unit {unit}")
    return figure


if __name__ == "__main__":
    command.run(main)
