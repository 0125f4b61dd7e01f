"""What is compared: the ways of fine-tuning one model, and the tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data_utils.labelled import LabelledSet, read_labelled_sets
from data_utils.multilabel import read_label_columns
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.task import hold_out

EMOTIONS = ("anger", "anticipation", "disgust", "fear", "joy", "love", "optimism")
EMOTIONS += ("pessimism", "sadness", "surprise", "trust")
# Plutchik's eight, over which Kant et al. 2018 average their Table 8.
BASIC_EMOTIONS = ("anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust")
SEED = 0
HELD_OUT = 0.1  # of SemEval's train: its test set has no labels, so that its val is what is tested

Sets = list[LabelledSet]  # train, val, test


def sst(folder: Path) -> Sets:
    """Read the binary Stanford Sentiment Treebank: train.csv, val.csv, test.csv."""
    return read_labelled_sets([folder / f"{name}.csv" for name in ("train", "val", "test")])


def semeval(folder: Path) -> Sets:
    """Read SemEval-2018 E-c, eleven emotions: thresholds from a tenth of train, val to test on."""
    train, test = read_label_columns(
        [folder / f"{name}.csv" for name in ("train", "val")], "Tweet", EMOTIONS
    )
    return [*hold_out(train, HELD_OUT, SEED), test]


TASKS: dict[str, Callable[[Path], Sets]] = {"sst": sst, "semeval": semeval}


@dataclass(frozen=True)
class Variant:
    """One way of fine-tuning."""

    config: FinetuningConfig
    pretrained: bool = True  # else the same architecture with weights drawn anew


def variants_of(epochs: int) -> dict[str, Variant]:
    """Return the ways that are compared, by name."""
    hidden = {"hidden_layers": (256,), "heads_per_class": 4, "dropout": 0.3}
    shared = {"epochs": epochs, "seed": SEED}
    return {
        "frozen": Variant(FinetuningConfig(**shared, freeze=True)),
        "frozen_hidden": Variant(FinetuningConfig(**shared, **hidden, freeze=True)),
        "learned": Variant(FinetuningConfig(**shared, **hidden)),
        "learned_with_lm": Variant(FinetuningConfig(**shared, **hidden, lm_weight=0.02)),
        "untrained": Variant(
            FinetuningConfig(**shared, **hidden, encoder_factor=1.0), pretrained=False
        ),
    }
