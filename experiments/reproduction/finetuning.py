"""Fine-tune a model on SST or SemEval: heads on frozen features, or the whole model.

python -m experiments.reproduction.finetuning --model amazon_subword_1024 --data DATA --task sst
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from configs import command
from data_utils.options import Model
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from model.errors import InputError
from model.files.storage import write_json
from model.files.weights import load_model
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.directory import FinetuningDirectory
from transfer.finetuning.experiment import run_finetuning
from transfer.intervals import packed_answers

from .emotions import plutchik_f1

RESULTS = Path(__file__).resolve().parent / "results/finetuning"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fine-tune a model in one way."""

    model: Model = "amazon_subword_1024"
    data: Path
    """The folder that holds sst/ and semeval/."""
    task: Literal["sst", "semeval"]
    """The set."""
    way: Literal["frozen", "frozen_hidden", "learned"] = "learned"
    """What learns: linear heads; heads with a hidden layer of 256; these and the whole model."""
    epochs: int = 3
    """Passes over the training set."""
    seed: int = 0
    """Seeds the heads, the order of the texts and dropout."""
    work: Path = Path("runs/finetuning")
    """Folder for the fine-tuned models; the same command continues an interrupted one."""


def main() -> None:
    options = command.parse(Options, __doc__)
    hidden = options.way != "frozen"
    config = FinetuningConfig(
        epochs=options.epochs,
        seed=options.seed,
        freeze=options.way != "learned",
        hidden_layers=(256,) if hidden else (),
        heads_per_class=4 if hidden else 1,
        dropout=0.3 if hidden else 0.1,
    )
    name = f"{options.task}_{options.way}" + (f"_{options.seed}" if options.seed else "")
    work = options.work / options.model / name
    sets = SETS[options.task].read(options.data).sets
    loaded = load_model(options.model, compute_dtype=torch.float32)
    resume = (work / "checkpoint").is_dir()
    result = run_finetuning(loaded, sets, work, config, resume=resume)
    if result is None:
        raise InputError(f"stopped; the same command continues in {work}")
    scores, labels = result["test"], sets[-1].labels
    said = np.load(FinetuningDirectory(work).choices, allow_pickle=False)["test"]
    if result["multilabel"]:
        scores["plutchik_f1"] = plutchik_f1(labels, said)
        print(f"{name}: {scores['plutchik_f1']}")
    else:
        scores["right"] = packed_answers(said == labels)
        print(f"{name}: {scores['accuracy']:.4f}")
    path = RESULTS / options.model / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {**result, "origin": describe_origin()})


if __name__ == "__main__":
    command.run(main)
