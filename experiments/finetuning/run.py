"""Fine-tuning on SST and SemEval-2018 E-c: one model, five ways, and a bag of words.

python -m experiments.finetuning.run --model runs/amazon_1024 --data DATA --work runs/finetuning
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from model.language_model import untrained_like
from model.storage import write_json
from model.weights import LoadedModel, load_model
from training.distributed import choose_device
from transfer.finetuning.directory import REQUEST_FILE
from transfer.finetuning.experiment import run_finetuning

from .baseline import bag_of_words
from .table import write_table
from .variants import BASIC_EMOTIONS, SEED, TASKS, Sets, Variant, variants_of

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fine-tune one model on SST and SemEval, five ways, into results/<name>/."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    name: str | None = None
    """What the results are filed under; absent, what --model says."""
    data: Path
    """The folder that holds sst/ and semeval/."""
    work: Path = Path("runs/finetuning")
    """Where the fine-tuned models go; what is there already goes on where it was interrupted."""
    tasks: tuple[Literal["sst", "semeval"], ...] = ("sst", "semeval")
    """Which of them."""
    variants: tuple[str, ...] = ()
    """Which ways; absent, all."""
    epochs: int = 5
    """Passes over the training set, for each of them."""
    limit: int | None = None
    """At most so many texts of each set, to see it work; absent, all."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""


def main() -> int:
    options = command.parse(Options, __doc__)
    device = choose_device(options.device)
    name = options.name or Path(options.model).name
    folder = HERE / "results" / name
    folder.mkdir(parents=True, exist_ok=True)
    known = variants_of(options.epochs)
    for task in options.tasks:
        sets = [limited(part, options.limit) for part in TASKS[task](options.data / task)]
        write_json(folder / f"{task}_bag_of_words.json", baseline(sets))
        for variant in options.variants or known:
            work = options.work / name / task / variant
            loaded = load_model(options.model, compute_dtype=torch.float32)
            result = fine_tuned(loaded, sets, known[variant], work, device)
            if result is None:
                print(f"stopped in {work}; the same command goes on")
                return command.INTERRUPTED
            write_json(folder / f"{task}_{variant}.json", result)
            print(line(task, variant, result), flush=True)
    print(write_table(folder))
    return 0


def limited(part: LabelledSet, limit: int | None) -> LabelledSet:
    """Return the first texts of a set in an order drawn by the seed."""
    order = np.random.default_rng(SEED).permutation(len(part.texts))
    return part if limit is None else part.subset(np.sort(order[:limit]))


def baseline(sets: Sets) -> dict[str, Any]:
    """Return what a bag of words is worth."""
    return {"test": with_basic(bag_of_words(*sets)), "origin": describe_origin()}


def fine_tuned(
    loaded: LoadedModel, sets: Sets, variant: Variant, work: Path, device: torch.device
) -> dict[str, Any] | None:
    """Fine-tune in a folder of its own, or go on there; return its results."""
    if not variant.pretrained:
        untrained = untrained_like(loaded.model, SEED)
        loaded = replace(loaded, model=untrained, provenance={"untrained": True})
    resume = (work / REQUEST_FILE).is_file()
    result = run_finetuning(loaded, sets, work, variant.config, device=device, resume=resume)
    if result is None:
        return None
    shutil.rmtree(work / "features", ignore_errors=True)
    return {**result, "test": with_basic(result["test"])}


def with_basic(scores: dict[str, Any]) -> dict[str, Any]:
    """Add the mean F1 of Plutchik's eight emotions, where they are the classes."""
    if not set(BASIC_EMOTIONS) <= set(scores["per_class"]):
        return scores
    each = [scores["per_class"][name]["f1"] for name in BASIC_EMOTIONS]
    return {**scores, "f1_basic_emotions": float(np.mean(each))}


def line(task: str, variant: str, result: dict[str, Any]) -> str:
    """Return the scores on the test set in one line."""
    keys = ("accuracy", "f1_macro", "f1_micro", "jaccard_samples", "f1_basic_emotions")
    test = result["test"]
    cells = (f"{key} {test[key]:.4f}" for key in keys if key in test)
    return f"{task:<8} {variant:<16} {', '.join(cells)}; epoch {result['best_epoch']}"


if __name__ == "__main__":
    command.run(main)
