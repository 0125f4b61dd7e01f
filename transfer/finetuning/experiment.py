"""A fine-tuning from end to end: texts and labels in, a model that classifies out, results."""

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data_utils.labelled import LabelledSet
from mlstm_sentiment.errors import TimeIsUp
from mlstm_sentiment.files.writer import write_atomically, write_json
from mlstm_sentiment.head.head_files import FOLDER, needed_classifier
from mlstm_sentiment.reading.progress import ProgressBar
from model.inference.weights import LoadedModel, load_model
from training.runs.run_directory import RowWriter
from training.runs.signals import StopRequest

from ..experiment import describe_model
from ..features import FeatureCache
from ..metrics import describe_choices
from ..regression import SPLITS
from ..unit_auc import save_units
from .config import FinetuningConfig
from .directory import FinetuningCheckpoints, FinetuningDirectory
from .encoder import features_of
from .heads import build_heads
from .task import Task, make_task
from .trainer import Finetuner

CPU = torch.device("cpu")

log = logging.getLogger(__name__)


def run_finetuning(
    loaded: LoadedModel,
    sets: Sequence[LabelledSet],
    output: Path,
    config: FinetuningConfig,
    *,
    device: torch.device = CPU,
    resume: bool = False,
    save_seconds: float = 600.0,
    stop: StopRequest | None = None,
) -> dict[str, Any] | None:
    """Fine-tune a model on train, choose on val, report on val and, if given, on test.

    sets: train, val, and test if given. Everything is written to `output`. Returns the content of
    `results.json`, or None if SIGINT or SIGTERM, noted in `stop`, ended it early: `resume`
    continues from there.

    Example:
        run_finetuning(load_model("amazon_1024"), sets, Path("stars"), FinetuningConfig(epochs=3))
    """
    directory = FinetuningDirectory(output)
    with directory.locked(resume=resume):
        source = describe_model(loaded)  # before it learns
        task = make_task(loaded, *sets[:2])
        directory.begin(source["digest"], task, config, resume=resume)
        checkpoints = FinetuningCheckpoints(directory, loaded)
        tuner = make_finetuner(loaded, task, config, device, FeatureCache(output / "features"))
        if not checkpoints.restore(tuner):
            tuner.standardize()
        with stop or StopRequest() as stop:
            learn(tuner, directory, checkpoints, loaded, stop, save_seconds)
            if not tuner.is_done:
                return None
        results = {**describe(tuner, directory, sets, device), "model": source}
        write_json(directory.results, results, directory.RESULT)
        return results


def make_finetuner(
    loaded: LoadedModel,
    task: Task,
    config: FinetuningConfig,
    device: torch.device,
    cache: FeatureCache,
) -> Finetuner:
    """Build the model and the heads that learn, on their device, from a seed."""
    model = loaded.model.to(device)
    sizes = model.config.hidden_size, len(task.classes)
    heads = build_heads(config, *sizes, config.seed).to(device)
    moved, texts = replace(loaded, model=model), {"train": task.train, "val": task.val}
    fixed = texts if config.freeze else {}
    frozen = {name: cache.features(moved, each, name) for name, each in fixed.items()}
    return Finetuner(model, heads, task, config, frozen)


def learn(
    tuner: Finetuner,
    directory: FinetuningDirectory,
    checkpoints: FinetuningCheckpoints,
    source: LoadedModel,
    stop: StopRequest,
    save_seconds: float,
) -> None:
    """Run the remaining epochs, saving now and then; end soon after a stop was requested."""
    saved_at = time.monotonic()
    shown = tuner.progress.step
    bar = ProgressBar("fine-tuning", tuner.steps, unit=" steps", done=shown)
    rows = RowWriter(directory.metrics)
    tuner.is_time_up = lambda: stop.requested

    def show_progress() -> None:
        nonlocal shown
        bar.advance(tuner.progress.step - shown)
        shown = tuner.progress.step

    def after_step() -> bool:
        nonlocal saved_at
        show_progress()
        if time.monotonic() - saved_at > save_seconds:
            checkpoints.save(tuner)
            saved_at = time.monotonic()
        return not stop.requested

    with bar, closing(rows):
        while not tuner.is_done and not stop.requested:
            finished = len(tuner.history)
            try:
                best = tuner.run_epoch(after_step)
            except TimeIsUp:
                best = None
            show_progress()
            if best is not None:
                directory.publish(best, tuner, source)
            for row in tuner.history[finished:]:
                rows.write(row)
                log.info("%s", line_of(tuner, row))
            checkpoints.save(tuner)
            saved_at = time.monotonic()


def line_of(tuner: Finetuner, row: dict[str, Any]) -> str:
    """Describe the epoch that has just ended in one line."""
    best = ", the best so far" if tuner.progress.best_epoch == row["epoch"] else ""
    return (
        f"epoch {row['epoch']} of {tuner.config.epochs}: loss {row['train_loss']:.4f}; val "
        f"{tuner.metric} {row[f'val_{tuner.metric}']:.4f}{best}"
    )


def describe(
    tuner: Finetuner,
    directory: FinetuningDirectory,
    sets: Sequence[LabelledSet],
    device: torch.device,
) -> dict[str, Any]:
    """Score the model in model/ on val and test; return the results without the source model.

    The AUC and the limit of each of the model's units on val are saved with its classifier.
    """
    best = load_model(directory.model, compute_dtype=torch.float32, device=device)
    fitted = needed_classifier(best)
    parts = dict(zip(SPLITS, sets, strict=False))
    features = {
        name: features_of(best.model, name, list(map(best.encode, part.texts)))
        for name, part in parts.items()
        if name != "train"
    }
    choices = {name: fitted.choose(fitted.probabilities(each)) for name, each in features.items()}
    units = best.model.config.hidden_size
    save_units(directory.model / FOLDER, features["val"], parts["val"].labels, units)
    write_atomically(directory.choices, lambda path: _save_arrays(path, choices), directory.RESULT)
    return {
        "classes": list(fitted.classes),
        "multilabel": fitted.several_labels,
        "examples": {name: len(part.texts) for name, part in parts.items()},
        "thresholds": list(fitted.thresholds),
        "best_epoch": tuner.progress.best_epoch,
        "chosen_by": tuner.metric,
        **{
            name: describe_choices(parts[name].labels, predicted, parts[name].classes)
            for name, predicted in choices.items()
        },
        "history": tuner.history,
        "seconds": tuner.progress.seconds,
        "symbols_per_epoch": sum(tuner.lengths),
        "config": asdict(tuner.config),
        "origin": directory.origin,
    }


def _save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays by name; savez would add a suffix to a path."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
