"""The ways of fine-tuning that are compared, and the tasks."""

from dataclasses import dataclass

from data_utils.labelled import LabelledSet
from data_utils.published_sets.registry import SETS
from transfer.finetuning.config import FinetuningConfig

Sets = list[LabelledSet]  # train, val, test


TASKS = {name: entry for name, entry in SETS.items() if entry.fine_tuned}


@dataclass(frozen=True)
class Variant:
    """One way of fine-tuning."""

    config: FinetuningConfig
    pretrained: bool = True  # False: the same architecture with random weights


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
            # Random weights are not worth keeping: the whole model learns at the heads' rate.
            FinetuningConfig(**shared, **hidden, encoder_factor=1.0),
            pretrained=False,
        ),
    }
