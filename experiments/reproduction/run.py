"""Measure one model on the published transfer tasks.

python -m experiments.reproduction.run --model default --data DATA --work runs/reproduction
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch

from configs import command
from data_utils.provenance import describe_origin
from experiments.baselines import BASELINES
from experiments.published_sets import SETS, PublishedTask, present
from mlstm_sentiment.bounds import NonNegativeInt
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.files.writer import write_json
from model.inference.weights import LoadedModel, load_model
from model.layers.config import Precision
from transfer.experiment import describe_model
from transfer.features import FeatureCache

from .accuracy import measure_accuracy
from .emotions import measure_f1
from .table import number, write_table
from .words import words_of

HERE = Path(__file__).resolve().parent
Name = Literal[*SETS]  # type: ignore[valid-type]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure one model on the published transfer tasks, and draw the table."""

    model: Model = "default"
    name: str | None = None
    """Name of the folder of results; absent, that of --model."""
    data: Path
    """The folder that holds a folder for each set: sst/, mr/, ..."""
    work: Path = Path("runs/reproduction")
    """Folder where features are kept; an interrupted run continues."""
    tasks: tuple[Name, ...] = ()
    """Names of sets; absent, those whose files exist."""
    untrained: NonNegativeInt = 3
    """Seeds of the untrained baseline; each processes all texts. 0: without it."""
    without_words: bool = False
    """Leave out the word baselines, which take minutes for a set of ten folds."""
    precision: Precision = "fp32"
    """Number format of the model's matrix products."""
    results: Path = HERE / "results"
    """The folder of the models' results."""


def main() -> None:
    reproduce(command.parse(Options, __doc__))


def reproduce(options: Options) -> None:
    """Measure the model on each set, and print the table."""
    loaded = load_model(options.model, compute_dtype=torch.float32)
    loaded.model.set_precision(options.precision)
    folder = options.results / (options.name or Path(options.model).name)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.tasks or present(options.data):
        task = SETS[name].read(options.data)
        words = {} if options.without_words else words_of(task, options.results)
        started = perf_counter()
        result = measure(task, options, loaded, folder)
        seconds = perf_counter() - started  # without those of features from an earlier run
        about = {"model": describe_model(loaded), "origin": describe_origin()}
        write_json(folder / f"{name}.json", {**result, "seconds": seconds, **about}, "a result")
        print(line({**words, **result}), flush=True)
    print(write_table(folder))


def measure(
    task: PublishedTask, options: Options, loaded: LoadedModel, folder: Path
) -> dict[str, Any]:
    """Return the result of a task without the model, and write its figures."""
    cache = FeatureCache(options.work)
    if SETS[task.name].kind == "emotions":
        return measure_f1(task, loaded, cache, options.untrained)
    return measure_accuracy(task, loaded, cache, options.untrained, folder)


def line(result: dict[str, Any]) -> str:
    """Return the main numbers of a task in one line."""
    columns = ("all_units", "one_unit", *BASELINES, "untrained", SETS[result["task"]].baseline)
    measure = SETS[result["task"]].rows[0].measure
    cells = [f"{n} {number(result[n], measure)['value']:.4f}" for n in columns if n in result]
    return f"{result['task']:<8} {', '.join(cells)}"


if __name__ == "__main__":
    command.run(main)
