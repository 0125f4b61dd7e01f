"""Study one unit of a model on SST, as scripts/neuron.py does, and keep the numbers.

python -m experiments.neuron.run --model amazon_1024 --data DATA --work runs/neuron
"""

import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from configs import command
from experiments.intervals import area_difference
from experiments.published_sets import SETS
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.files.writer import write_json
from model.inference.weights import load_model
from transfer.features import FeatureCache
from transfer.neuron.report import write_figures
from transfer.neuron.study import run_study
from transfer.regression import Examples
from transfer.task import StudyOptions

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Options:
    """Study one unit; the page that quotes texts stays in --work."""

    model: Model = "default"
    name: str | None = None
    """Name of the folder of results. Default: the name of --model."""
    data: Path
    """The folder that holds sst/{train,val,test}.csv."""
    work: Path = Path("runs/neuron")
    """Folder for the page and the features."""
    draws: int = 10
    """Random draws for each number of labels."""
    untrained: int = 3
    """Number of seeds of the untrained baseline."""
    neuron: int | None = None
    """The unit. Default: the one with the largest weight in the regression on all units."""
    results: Path = HERE / "results"
    """The folder of the models' results."""


def main() -> None:
    study(command.parse(Options, __doc__))


def study(options: Options) -> None:
    """Study a model, and keep its numbers and figures."""
    name = options.name or Path(options.model).name
    folder, work = options.results / name, options.work / name
    command.prepare_output(folder / "neuron.json")
    command.prepare_output(work / "neuron.json")
    sets = SETS["sst"].read(options.data).sets
    loaded = load_model(options.model, compute_dtype=torch.float32)
    settings = StudyOptions(neuron=options.neuron, draws=options.draws, untrained=options.untrained)
    results = run_study(loaded, sets, work, settings)
    test = FeatureCache(work / "features").examples(loaded, sets)[2]
    results["areas"] = {"apart": best_apart(results["ranking"], test)}
    write_figures(results, work / "figures")
    keep(results, work / "figures", folder)
    print(f"numbers and figures in {folder}, the texts in {work / 'neuron.json'}")


def best_apart(ranking: dict[str, Any], test: Examples) -> list[dict[str, Any]]:
    """Return how far apart the AUCs of the best and the second unit are, and the next two's."""
    oriented = [unit["polarity"] * test.features[:, unit["unit"]] for unit in best_units(ranking)]
    return [area_difference(*pair, test.labels) for pair in pairwise(oriented)]


def best_units(ranking: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the three units with the largest AUC on train, the best one first."""
    return sorted(ranking["units"], key=lambda unit: int(unit["rank"]["area"]))[:3]


def keep(results: dict[str, Any], figures: Path, folder: Path) -> None:
    """Write all results except the sentences of SST, which this repository may not publish."""
    numbers = {key: value for key, value in results.items() if key != "extremes"}
    extremes = results["extremes"]
    numbers["extremes"] = {
        "searched": extremes["searched"],
        "texts": _only(("row", "value", "label"), extremes["texts"]),
        "moments": _only(("row", "word", "change", "label"), extremes["moments"]),
        "words": extremes["words"],
    }
    write_json(folder / "neuron.json", numbers, "a result")
    shutil.copytree(figures, folder, dirs_exist_ok=True)


def _only(keys: tuple[str, ...], kinds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return only these keys of each row."""
    return {kind: [{key: row[key] for key in keys} for row in rows] for kind, rows in kinds.items()}


if __name__ == "__main__":
    command.run(main)
