"""Measure each unit of a shipped model on labelled texts, for the scales and `--top` of `heatmap`.

python -m experiments.models.separation default --train sst/train.csv
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from configs import command
from data_utils.labelled import read_labelled_sets
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.head.head_files import CHANCE, FOLDER, save_areas
from transfer.features import FeatureCache
from transfer.unit_auc import per_unit_auc, per_unit_limit


@dataclass(frozen=True)
class Options:
    """Write the AUC and the limit of each of a model's units into its classifier/."""

    models: Annotated[tuple[str, ...], Argument(positional=True)]
    """Model directories or names of shipped models, each with a classifier."""
    train: Path
    """Labelled texts."""
    work: Path = Path("runs/shipped")
    """Folder where features are kept."""


def main() -> None:
    options = command.parse(Options, __doc__)
    (texts,) = read_labelled_sets([options.train])
    for name in options.models:
        loaded = Engine.load(name)
        sequences = list(map(loaded.encode, texts.texts))
        features = FeatureCache(options.work).features(loaded, sequences, name)
        units = loaded.architecture.hidden_size
        areas = per_unit_auc(features, texts.labels, units)
        save_areas(loaded.folder / FOLDER, areas, per_unit_limit(features, units))
        best = np.argsort(-np.abs(areas - CHANCE), kind="stable")[:5]
        print(f"{name}: " + ", ".join(f"unit {unit} {areas[unit]:.3f}" for unit in best))


if __name__ == "__main__":
    command.run(main)
