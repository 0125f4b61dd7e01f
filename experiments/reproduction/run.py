"""The published transfer table, for one model: SST, IMDB and MR, all units and one.

python -m experiments.reproduction.run --model default --data DATA --work runs/reproduction
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from configs import command
from data_utils.provenance import describe_origin
from model.storage import write_json
from model.weights import LoadedModel, load_model, model_digest
from transfer.baselines import tfidf_accuracy
from transfer.features import FeatureCache
from transfer.plots import draw_histogram, save_png, unit_histogram
from transfer.regression import Examples, Neuron, accuracy_interval, find_neuron, fit_regression

from .tasks import TASKS, Fold, Task, subset

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure one model on the published transfer tasks, into results/<name>/."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    name: str | None = None
    """What the results are filed under; absent, what --model says."""
    data: Path
    """The folder that holds sst/, imdb/ and mr/."""
    work: Path = Path("runs/reproduction")
    """Where features are kept, so that an interrupted run goes on."""
    tasks: tuple[Literal["sst", "imdb", "mr"], ...] = ("sst", "mr", "imdb")
    """Which of them."""


def main() -> None:
    options = command.parse(Options, __doc__)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    folder = HERE / "results" / (options.name or Path(options.model).name)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.tasks:
        task = TASKS[name](options.data / name)
        result = measure(task, loaded, FeatureCache(options.work), folder)
        write_json(folder / f"{name}.json", result)
        print(line(result), flush=True)


def line(result: dict[str, Any]) -> str:
    """Return the accuracies of a result in one line."""
    columns = ("all_units", "one_unit", "tfidf")
    cells = (f"{name} {result[name]['test_accuracy']:.4f}" for name in columns)
    return f"{result['task']:<5} {', '.join(cells)}; unit {result['neurons']}"


def measure(task: Task, loaded: LoadedModel, cache: FeatureCache, folder: Path) -> dict[str, Any]:
    """Fit and test on every fold; return the accuracies over all that was tested."""
    sequences = list(map(loaded.tokens, task.texts.texts))
    features = cache.features(loaded.model, sequences, task.name)
    examples = Examples(features, task.texts.labels)
    right: dict[str, float] = {"all_units": 0.0, "one_unit": 0.0, "tfidf": 0.0}
    neurons: list[Neuron] = []
    for fold in task.folds:
        train, val, test = (choose(examples, rows) for rows in (fold.train, fold.val, fold.test))
        regression = fit_regression(train, val)
        neurons.append(find_neuron(regression, train, val))
        alone = neurons[-1].column(test)
        right["all_units"] += regression.accuracy(test) * len(fold.test)
        right["one_unit"] += neurons[-1].regression.accuracy(alone) * len(fold.test)
        right["tfidf"] += bag_of_words(task, fold) * len(fold.test)
    draw(neurons[0], choose(examples, task.folds[0].test), folder / task.name)
    tested = sum(len(fold.test) for fold in task.folds)
    return {
        "task": task.name,
        "folds": len(task.folds),
        "tested": tested,
        **{name: accuracy(count / tested, tested) for name, count in right.items()},
        "neurons": sorted({neuron.index for neuron in neurons}),
        "model": {"digest": model_digest(loaded.model), "provenance": dict(loaded.provenance)},
        "origin": describe_origin(),
    }


def choose(examples: Examples, rows: np.ndarray) -> Examples:
    """Return the examples of these rows."""
    return Examples(examples.features[rows], examples.labels[rows])


def bag_of_words(task: Task, fold: Fold) -> float:
    """Return the accuracy of TF-IDF and logistic regression on a fold."""
    return tfidf_accuracy(*(subset(task.texts, r) for r in (fold.train, fold.val, fold.test)))


def accuracy(value: float, tested: int) -> dict[str, Any]:
    """Return an accuracy with its interval."""
    return {"test_accuracy": value, "test_interval": accuracy_interval(value, tested)}


def draw(neuron: Neuron, test: Examples, path: Path) -> None:
    """Write the histogram of the unit by label, as numbers and as a picture."""
    histogram = unit_histogram(neuron.index, test)
    write_json(path.with_name(f"{path.name}_neuron.json"), histogram)
    picture = draw_histogram(histogram, neuron.index)
    save_png(picture, path.with_name(f"{path.name}_neuron.png"))


if __name__ == "__main__":
    command.run(main)
