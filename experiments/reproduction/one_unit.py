"""Test one unit on several sets; unit and threshold are chosen on SST's training split alone.

python -m experiments.reproduction.one_unit --model amazon_subword_1024 --data DATA
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from experiments.models.overlap import HeldOut
from experiments.published_sets import SETS
from experiments.results import read_result
from experiments.tables import accuracy, markdown, origins, percent
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.files.writer import write_json
from model.inference.weights import LoadedModel, load_model
from transfer.experiment import describe_model
from transfer.features import FeatureCache
from transfer.neuron.ranking import Cuts, Ranking, area_interval, rank_units
from transfer.regression import Examples, accuracy_interval, fit_regression
from transfer.unit_auc import per_feature_auc

HERE = Path(__file__).resolve().parent
TESTS = {
    "sst": "SST",
    "imdb": "IMDB",
    "cr": "CR",
    "mr": "MR without SST's",
    "mr_all": "all of MR",
}
FILE = "one_rule.json"
ORDERS = {"best_on_train": "accuracy", "largest_weight": "weight"}  # of Ranking
RULES = {
    "best_on_train": "accuracy on SST's train split",
    "largest_weight": "largest weight in the regression on SST",
}
WEIGHTS = {  # results on SST
    "amazon_1024": "`amazon_1024` as shipped, 8 bits",
    "amazon_1024_full": "`amazon_1024`, full weights",
    "amazon_subword_1024": "`amazon_subword_1024` as shipped, 8 bits",
    "amazon_subword_1024_full": "`amazon_subword_1024`, full weights",
    "amazon_subword_1024_mean": "its former weights (revision f87429bf), 6 bits",
    "amazon_subword_1024_mean_full": "its former weights, unrounded",
    "amazon_subword_1024_997m": "their second training (revision 1014da6c), 6 bits",
    "amazon_subword_1024_997m_full": "their second training, full weights",
    "amazon_subword_1024_870m": "their first training (revision 86ee7ffc), 6 bits",
    "amazon_subword_1024_870m_full": "their first training, full weights",
    "amazon_subword_1024_long": "subword tokens, half as long and without dropout: first seed",
    "amazon_subword_1024_seed_1": "subword tokens, half as long and without dropout: second seed",
}
NOTES = """\
Accuracy in per cent with a 95 % interval; then the AUC. Unit and threshold are chosen on SST's
train split; no label of another set is used. SST's sentences come from MR, so MR is also tested
without those that share wording with SST's train and val splits. What remains is harder, since SST
left out the sentences that its readers found neutral. Intervals cover the
choice of the test texts, not another training."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choose a unit and its threshold on SST's training split, and test it on other sets."""

    model: Model = "default"
    name: str | None = None
    """Name of the folder of results. Default: the name of --model."""
    data: Path
    """The folder that holds a folder for each set: sst/, mr/, ..."""
    work: Path = Path("runs/reproduction")
    """Folder where features are cached; an interrupted run continues."""
    tasks: tuple[Literal[*TESTS], ...] = tuple(TESTS)  # type: ignore[valid-type]
    """Names of the sets to test on."""
    results: Path = HERE / "results"
    """The folder of the models' results."""


def main() -> None:
    options = command.parse(Options, __doc__)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    cache = FeatureCache(options.work)
    sst = SETS["sst"].read(options.data)
    (fold,) = sst.folds
    examples = features_of(loaded, sst.texts, cache, "sst")
    train, val = examples.subset(fold.train), examples.subset(fold.val)
    rules = chosen_units(rank_units(train, fit_regression(train, val)))
    learned = HeldOut(sst.texts.texts[row] for row in (*fold.train, *fold.val))
    for name in options.tasks:
        texts = tested_texts(name, options.data, learned)
        tested = features_of(loaded, texts, cache, name)
        for rule in rules.values():
            rule["sets"][name] = describe_unit(rule, tested)
    folder = options.results / (options.name or Path(options.model).name)
    about = {"model": describe_model(loaded), "origin": describe_origin()}
    write_json(folder / FILE, {"rules": rules, **about}, "a result")
    for title, rule in rules.items():
        accuracies = {name: row["test_accuracy"] for name, row in rule["sets"].items()}
        print(f"{title}: unit {rule['unit']}, {accuracies}")


def features_of(
    loaded: LoadedModel, texts: LabelledSet, cache: FeatureCache, name: str
) -> Examples:
    """Return the features of texts."""
    sequences = list(map(loaded.encode, texts.texts))
    return Examples(cache.features(loaded, sequences, name), texts.labels)


def chosen_units(ranking: Ranking) -> dict[str, dict[str, Any]]:
    """Return the unit that each rule chooses, with its threshold."""
    units = {rule: int(ranking.orders()[order][0]) for rule, order in ORDERS.items()}
    return {
        rule: {
            "unit": unit,
            "cut": float(ranking.cuts.values[unit]),
            "polarity": int(ranking.cuts.polarity[unit]),
            "train_accuracy": float(ranking.accuracies[unit]),
            "sets": {},
        }
        for rule, unit in units.items()
    }


def tested_texts(name: str, data: Path, learned: HeldOut) -> LabelledSet:
    """Return the test texts of a set, all texts where it has folds.

    SST's sentences come from MR: those of MR that share wording with `learned` are left out, except
    from mr_all.
    """
    task = SETS[name.removesuffix("_all")].read(data)
    if len(task.folds) == 1:
        return task.sets[-1]
    if name != "mr":
        return task.texts
    new = [row for row, text in enumerate(task.texts.texts) if not learned.shares_with(text)]
    return task.texts.subset(np.array(new))


def describe_unit(rule: dict[str, Any], tested: Examples) -> dict[str, Any]:
    """Return the accuracy of a unit at its threshold, and its AUC."""
    alone = tested.units([rule["unit"]])
    cut = Cuts(np.array([rule["cut"]]), np.array([rule["polarity"]]))
    right = float(cut.accuracies(alone)[0])
    values = rule["polarity"] * alone.features[:, 0]
    return {
        "tested": len(tested.labels),
        "test_accuracy": right,
        "test_interval": accuracy_interval(right, len(tested.labels)),
        "area": float(per_feature_auc(values[:, None], tested.labels == 1)[0]),
        "area_interval": area_interval(values, tested.labels),
    }


def table(*models: str) -> str:
    """Return the accuracy and AUC of each model's units on every set."""
    rows, results = [], {}
    for model in models:
        results[model] = read_result("reproduction", f"{model}/{FILE.removesuffix('.json')}")
        for rule, choice in results[model]["rules"].items():
            cells = [cell_of(choice["sets"].get(name)) for name in TESTS]
            rows.append([f"`{model}`, {RULES[rule]}", str(choice["unit"]), *cells])
    counts = {
        name: row["tested"]
        for result in results.values()
        for name, row in result["rules"]["best_on_train"]["sets"].items()
    }
    heads = [f"{TESTS[name]}, {counts[name]:,} texts" for name in TESTS if name in counts]
    return f"{markdown(['unit chosen by', 'unit', *heads], rows)}\n\n{NOTES} {origins(results)}"


def cell_of(row: dict[str, Any] | None) -> str:
    """Return an accuracy with its interval, and the AUC."""
    if row is None:
        return "-"
    return f"{percent(row['test_accuracy'], row['test_interval'])}; {row['area']:.3f}"


def instability() -> str:
    """Return the unit of largest weight on SST, and its accuracy, by bits and by seed."""
    rows, results = [], {}
    for name, words in WEIGHTS.items():
        result = results[f"{name}/sst.json"] = read_result("reproduction", f"{name}/sst")
        accuracies = (accuracy(result[row]) for row in ("one_unit", "all_units"))
        rows.append([words, str(result["neurons"][0]), *accuracies])
    head = ["weights", "unit of largest weight", "that unit alone", "all units"]
    return f"{markdown(head, rows)}\n\n{origins(results)}"


if __name__ == "__main__":
    command.run(main)
