"""Transfer a model to a labelled task of two or more classes: regression on its features.

python scripts/transfer.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/transfer
"""

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command

from mlstm_sentiment.bounds import PositiveInt
from mlstm_sentiment.engine.kinds import Pooling, check_poolings
from mlstm_sentiment.errors import InputError
from transfer.task import LabelledTask

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(LabelledTask):
    """Transfer a model to a labelled task of two or more classes: L1 logistic regression."""

    output: Path
    """Folder for results.json, figures, the classifier and the feature cache. In a run's folder
    transfer/ the other commands find the classifier by themselves."""
    pooling: tuple[Pooling, ...] = ("last",)
    """How the cell states become features: last (as published), mean, max, min, or several side by
    side. For a briefly trained model, mean is better than last."""
    untrained: PositiveInt = 1
    """Seeds of the untrained baseline; each processes all texts again."""


def main() -> None:
    options = command.parse(Options, __doc__)
    check_poolings(options.pooling)
    if options.output.is_file():
        raise InputError(f"--output {options.output}: is a file; name a folder")

    from mlstm_sentiment.head.head_files import find_classifier
    from transfer.experiment import run_transfer

    loaded, sets = options.read()
    results = run_transfer(
        loaded,
        sets,
        options.output,
        pooling=options.pooling,
        seed=options.seed,
        untrained=options.untrained,
    )
    _print_table(results)
    _print_summary(results, options, find_classifier(loaded))


def _print_table(results: dict[str, Any]) -> None:
    from model.layers.language_model import layer_of
    from transfer.intervals import accuracy_table

    neuron, cell = results["neuron"], layer_of(results["model"]["architecture"]["cell"]).title
    sign = "+" if neuron["polarity"] > 0 else "-"
    threshold = results.get("threshold", {"value": 0.5})  # only two classes have one
    cut = {f"all units, threshold {threshold['value']:.3f}": threshold}
    rows = {
        f"all units ({results['nonzero']} of them, C {results['c']:g})": results,
        f"unit {neuron['index']} alone ({sign})": neuron,
        **(cut if threshold["value"] != 0.5 else {}),
        "TF-IDF, words and pairs": results["baselines"]["tfidf"],
        f"untrained {cell}": results["baselines"]["untrained"],
        "majority class": results["baselines"]["majority"],
    }
    print(*accuracy_table(rows.items()), sep="\n")


def _print_summary(results: dict[str, Any], options: Options, default: Path | None) -> None:
    """Print what was learnt, where the results are, and the command that uses them.

    default: the classifier that the other commands use unless --classifier names one.
    """
    from mlstm_sentiment.head.head_files import FOLDER, TRANSFER_FOLDER
    from transfer.summary import summarize

    command.say("", *summarize(results), "", f"written to {options.output}")
    words = ["python", "scripts/classify.py", "--model", str(options.model)]
    if default is None or not default.samefile(options.output / FOLDER):
        words += ["--classifier", str(options.output)]
        if default is not None and options.output.name == TRANSFER_FOLDER:
            log.warning("the other commands use %s; name the new one with --classifier", default)
    command.say("next: " + shlex.join([*words, "--text", "I love it."]))


if __name__ == "__main__":
    command.run(main)
