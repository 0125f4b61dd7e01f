"""Transfer a model to a labelled task of two or more classes: regression on its features.

python scripts/transfer.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/transfer
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command

from model.errors import InputError
from model.features import Pooling, check_poolings
from transfer.intervals import check_seeds


@dataclass(frozen=True, kw_only=True)
class Options:
    """Transfer a model to a labelled task of two or more classes: L1 logistic regression."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    train: Path
    """Labelled texts to fit on: CSV, TSV, JSON lines or Parquet, also compressed."""
    val: Path
    """Labelled texts to choose C and, with two classes, the threshold on."""
    test: Path
    """Labelled texts to report on."""
    output: Path
    """Folder for results.json, figures, the classifier and the feature cache. In a run's folder
    transfer/ the other commands find the classifier by themselves."""
    text_key: str | None = None
    """Key of the text. Default: the first present of text, sentence, reviewText, review."""
    label_key: str | None = None
    """Key of the label. Default: the first present of label, sentiment, overall."""
    pooling: tuple[Pooling, ...] = ("last",)
    """How the cell states become features: last (as published), mean, max, min, or several side by
    side. For a briefly trained model, mean is better than last."""
    seed: int = 0
    """Seeds the regressions and the untrained baseline."""
    untrained: int = 1
    """Seeds of the untrained baseline; each reads all texts again."""
    device: str = "auto"
    """Where the model runs: cpu, cuda, cuda:1, mps, or auto, the fastest one available."""


def main() -> None:
    options = command.parse(Options, __doc__)
    check_seeds(options.seed, options.untrained)
    if options.untrained < 1:
        raise InputError(f"--untrained {options.untrained}: it must be 1 or above")
    check_poolings(options.pooling)

    import torch

    from data_utils.labelled import read_labelled_sets
    from model.files.weights import load_model
    from transfer.experiment import run_transfer

    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    paths = [options.train, options.val, options.test]
    sets = read_labelled_sets(paths, options.text_key, options.label_key)
    results = run_transfer(
        loaded,
        sets,
        options.output,
        pooling=options.pooling,
        seed=options.seed,
        untrained=options.untrained,
    )
    print_table(results)
    print(f"written to {options.output}")


def print_table(results: dict[str, Any]) -> None:
    """Print the accuracies on the test set, best known first."""
    neuron = results["neuron"]
    sign = "+" if neuron["polarity"] > 0 else "-"
    threshold = results.get("threshold", {"value": 0.5})  # only two classes have one
    cut = {f"all units, cut at {threshold['value']:.3f}": threshold}
    rows = {
        f"all units ({results['nonzero']} of them, C {results['c']:g})": results,
        f"unit {neuron['index']} alone ({sign})": neuron,
        **(cut if threshold["value"] != 0.5 else {}),
        "TF-IDF, words and pairs": results["baselines"]["tfidf"],
        "untrained mLSTM": results["baselines"]["untrained"],
        "majority class": results["baselines"]["majority"],
    }
    print(f"{'test accuracy':<36}{'':>8}  95 % interval")
    for name, row in rows.items():
        low, high = row["test_interval"]
        print(f"{name:<36}{row['test_accuracy']:>8.4f}  {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    command.run(main)
