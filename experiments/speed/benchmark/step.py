"""A whole training step compared with the recurrence inside it, and the time of its parts."""

import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from data_utils.corpus import embedded_corpus
from data_utils.lanes import Lanes
from model.kernels.weight_gradients import PRODUCT
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import launched
from training.precision import sums_in_fp32
from training.trainer import TrainConfig, Trainer

from .contenders import from_table, training
from .problem import MeasureOptions, Problem
from .timing import interleave, rates, ratio

DATA = "data"
REST = "rest"
BACKWARD = "autograd::engine::evaluate_function: "
# Patterns of the events in each part of a step; the first match counts. An event includes what ran
# inside it, except other parts, such as weight gradients in the recurrence's backward pass.
PARTS = {
    DATA: DATA,
    "weight gradients": f"{PRODUCT}|{BACKWARD}_AttachBackward",
    "recurrence, forward": r"_\w+Mlstm",
    "recurrence, backward": rf"{BACKWARD}_\w+MlstmBackward",
    "loss": rf"_LinearCrossEntropy|{BACKWARD}_LinearCrossEntropyBackward",
    "weight norm": rf"_NormedRows|{BACKWARD}_NormedRowsBackward",
    "optimiser": r"Optimizer\.step#\w+\.step|aten::_foreach_norm|aten::_fused_\w+",
}
Spans = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class StepOptions(MeasureOptions):
    """A training step of the language model: loader, embedding, recurrence, loss, update."""

    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """The optimiser."""
    parts: bool = False
    """Print where the time of a step goes, too: a profile of `rounds` more steps."""


def measure_step(options: StepOptions) -> dict[str, Any]:
    """Return characters per second of the step and of the recurrence alone, and their ratio."""
    config = ModelConfig(hidden_size=options.hidden_size)
    shape = options.shape(config.embedding_size)
    problem = Problem.draw(shape)
    with launched(options.device) as world, sums_in_fp32():
        lanes = Lanes(embedded_corpus().splits["train"], lanes=options.batch, window=options.window)
        trainer = Trainer(
            build_model(config, seed=0, compute_dtype=shape.dtype),
            optim=OptimConfig(name=options.optimizer, clip_norm=1.0),
            train=TrainConfig(precision=options.dtype),
            world=world,
            lanes=options.batch,
            steps=1000,
            seed=0,
        )

        def step() -> None:
            with record_function(DATA):
                batch = as_batch(lanes[trainer.progress.step], world.device)
            trainer.train(batch)

        recurrence = training(from_table(problem), problem.parameters(), problem.dh)
        seconds = interleave({"step": step, "recurrence": recurrence}, options.rounds)
        parts = {"parts": profile_step(step, options.rounds)} if options.parts else {}
    speeds, spread = rates(seconds, options.window * options.batch)
    whole = ratio(seconds, "step", "recurrence")
    return {
        "implementation": trainer.model.implementation,
        "chars_per_second": speeds,
        "spread": spread,
        "ratios": {"step_to_recurrence": whole["median"]},
        "ratio_ranges": {"step_to_recurrence": [whole["low"], whole["high"]]},
        **parts,
        **options.provenance(),
        "seconds": seconds,
    }


def profile_step(step: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Return medians over profiled steps: `milliseconds` of the step and its parts, and `share`.

    step: makes one training step; what it does under `record_function(DATA)` is data.
    """
    step()
    measured = [_profiled(step) for _ in range(rounds)]
    names = [*PARTS, REST]
    medians = {name: statistics.median(spans[name] for spans in measured) for name in names}
    total = statistics.median(sum(spans.values()) for spans in measured)
    return {
        "milliseconds": {"step": total, **medians},
        "share": {name: value / total for name, value in medians.items()},
    }


def _profiled(step: Callable[[], object]) -> Spans:
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiled, record_function("step"):
        step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return spans_of(profiled.events())


def spans_of(events: list[FunctionEvent]) -> Spans:
    """Return the milliseconds of every part of a step, which is the event named `step`."""
    spans = dict.fromkeys((*PARTS, REST), 0.0)
    whole = 0.0
    for event in events:
        milliseconds = event.time_range.elapsed_us() / 1000
        if event.name == "step":
            whole += milliseconds
        part = part_of(event)
        outer = _outer_part(event)
        if part is None or part == outer:
            continue
        spans[part] += milliseconds
        if outer is not None:
            spans[outer] -= milliseconds
    spans[REST] = whole - sum(spans.values())
    return spans


def part_of(event: FunctionEvent) -> str | None:
    """Return the part that an event by itself belongs to."""
    matching = (part for part, pattern in PARTS.items() if re.fullmatch(pattern, event.name))
    return next(matching, None)


def _outer_part(event: FunctionEvent) -> str | None:
    """Return the part of the nearest event around this one that has any."""
    parent = event.cpu_parent
    while parent is not None:
        part = part_of(parent)
        if part is not None:
            return part
        parent = parent.cpu_parent
    return None
