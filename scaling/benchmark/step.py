"""A whole training step against the recurrence inside it, at the same sizes."""

from dataclasses import dataclass
from typing import Any, Literal

from torch.profiler import record_function

from data_utils.lanes import Lanes
from data_utils.sources import embedded_corpus
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.feeding import as_batch
from training.optimizers.optim import OptimConfig
from training.parallel.distributed import launched
from training.precision import sums_in_fp32
from training.trainer import TrainConfig, Trainer

from .contenders import from_table, training
from .options import MeasureOptions
from .parts import DATA, profile_step
from .problem import Problem
from .timing import interleave, rates, ratio


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
