"""What is compared: the ways of fine-tuning one model, and the tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data_utils.labelled import LabelledSet, read_labelled_sets
from experiments.reproduction.emotions import semeval
from transfer.finetuning.config import FinetuningConfig

Sets = list[LabelledSet]  # train, val, test


def sst(folder: Path) -> Sets:
    """Read the binary Stanford Sentiment Treebank: train.csv, val.csv, test.csv."""
    return read_labelled_sets([folder / f"{name}.csv" for name in ("train", "val", "test")])


TASKS: dict[str, Callable[[Path], Sets]] = {
    "sst": sst,
    "semeval": lambda folder: semeval(folder).sets,
}


@dataclass(frozen=True)
class Variant:
    """One way of fine-tuning."""

    config: FinetuningConfig
    pretrained: bool = True  # else the same architecture with weights drawn anew


def variants_of(epochs: int, seed: int) -> dict[str, Variant]:
    """Return the ways that are compared, by name."""
    hidden = {"hidden_layers": (256,), "heads_per_class": 4, "dropout": 0.3}
    shared = {"epochs": epochs, "seed": seed}
    return {
        "frozen": Variant(FinetuningConfig(**shared, freeze=True)),
        "frozen_hidden": Variant(FinetuningConfig(**shared, **hidden, freeze=True)),
        "learned": Variant(FinetuningConfig(**shared, **hidden)),
        "learned_with_lm": Variant(FinetuningConfig(**shared, **hidden, lm_weight=0.02)),
        "untrained": Variant(
            # Nothing there is worth keeping: the whole of it learns at the heads' rate.
            FinetuningConfig(**shared, **hidden, encoder_factor=1.0),
            pretrained=False,
        ),
    }
