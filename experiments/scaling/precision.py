"""Compare what fp32, bf16 and fp16 learn from the same text, and their memory.

python -m experiments.scaling.precision --corpus data/reviews --work runs/precision \\
    --output experiments/scaling/results/precision.json --figure experiments/scaling/precision.png
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from experiments.training_runs import Recipe
from model.files.storage import write_json
from model.language_model import ModelConfig
from scaling.memory import MemoryModel
from training.precision import Precision

from .learning.footprint import footprint, recurrence_of
from .learning.precision_figure import draw
from .learning.runs import Result, Run, StudyOptions, make_runs

KEYS: Mapping[str, Any] = {
    "seed": 0,
    "model.hidden_size": 256,
    "model.forget_gate_bias": 1.0,
    "data.lanes": 32,
    "data.window": 64,
    "optim.name": "adam",
    "optim.lr": 2e-3,
    "optim.warmup": 0.05,
    "optim.clip_norm": 1.0,
}
FIRST_OF_2018 = 2.0**32  # where Puri et al.'s loss scale began
WAYS: Mapping[str, Mapping[str, Any]] = {
    "fp32": {"train.precision": "fp32"},
    "fp32, seed 1": {"train.precision": "fp32", "seed": 1},
    "fp32, seed 2": {"train.precision": "fp32", "seed": 2},
    "fp32, plain torch": {"train.precision": "fp32", "model.backend": "reference"},
    "fp16": {"train.precision": "fp16"},
    "fp16, scale from 2^32": {"train.precision": "fp16", "train.loss_scale": FIRST_OF_2018},
    "bf16": {"train.precision": "bf16"},
}
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")
ROWS = 150  # of metrics, of each run
PAPER = ModelConfig(hidden_size=4096)
PAPER_WINDOW, PAPER_LANES = 256, (128, 256)  # of a V100: in fp32, in fp16


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Train one model in seven ways on the same text in the same order, and count its memory."""

    characters: int = 2_000_000
    """Characters of each run."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output, options.picture)
    runs = [run_of(way, options.characters) for way in WAYS]
    results = make_runs(runs, options, lambda results: publish(results, options))
    print(publish(results, options))


def run_of(way: str, characters: int) -> Run:
    """Return the run of a way."""
    keys = {**KEYS, **WAYS[way]}
    name = re.sub(r"\W+", "_", way)
    recipe = Recipe(name, characters, keys)
    keys |= {"log.every_steps": max(1, recipe.steps // ROWS)}
    return Run(replace(recipe, keys=keys), facts={"way": way})


def publish(results: Sequence[Result], options: Options) -> str:
    """Write the results and their figure; return the tables."""
    study = {
        "base": dict(KEYS),
        "characters": options.characters,
        "declared_runs": len(WAYS),
        "runs": list(results),
        "memory": counted(),
        "memory_of_the_published_model": worked_out(),
        "origin": describe_origin(),
    }
    write_json(options.output, study)
    draw(options.picture, study)
    return tables(study)


@cache
def counted() -> dict[str, Any]:
    """Return the bytes of the model in every precision, and what computes it here."""
    config = ModelConfig(hidden_size=KEYS["model.hidden_size"])
    return {
        precision: {
            "recurrence": recurrence_of(config, precision),
            "bytes": footprint(
                config, precision, lanes=KEYS["data.lanes"], window=KEYS["data.window"]
            ),
        }
        for precision in PRECISIONS
    }


def worked_out() -> dict[str, dict[str, float]]:
    """Return the bytes of the published model on one GPU by the memory model, for some lanes."""
    base = MemoryModel(model=PAPER, window=PAPER_WINDOW, gradient_bytes=0.0, graphs=False)
    models = {precision: replace(base, precision=precision) for precision in PRECISIONS}
    return {
        precision: {str(lanes): model.needed(lanes).total for lanes in PAPER_LANES}
        for precision, model in models.items()
    }


def tables(study: Mapping[str, Any]) -> str:
    """Return tables of the scores, of the memory here, and of that of the published model."""
    return "\n\n".join(
        [learnt(study["runs"]), held(study["memory"]), held_by_the_published_model(study)]
    )


def learnt(results: Sequence[Result]) -> str:
    """Return a row for each run: its bits, and their difference from fp32."""
    scores = {result["way"]: result["valid_bits_per_character"] for result in results}
    rows = []
    for result in results:
        bits, yardstick = scores[result["way"]], scores.get("fp32")
        difference = f"{bits - yardstick:+.4f}" if bits and yardstick else ""
        scaled = [row for row in result["rows"] if "loss_scale" in row]
        rows.append(
            [
                result["way"],
                f"{bits:.4f}" if bits else "diverged",
                difference,
                f"{sum(row['overflows'] for row in scaled)}" if scaled else "",
                f"2^{math.log2(scaled[-1]['loss_scale']):.0f}" if scaled else "",
            ]
        )
    head = ["", "valid, bits per character", "against fp32", "steps that overflowed"]
    return markdown([*head, "loss scale at the end"], rows)


def held(memory: Mapping[str, Any]) -> str:
    """Return megabytes by their purpose."""
    kinds = list(memory["fp32"]["bytes"])
    rows = [
        [kind.replace("_", " "), *(f"{memory[p]['bytes'][kind] / 1e6:.2f}" for p in memory)]
        for kind in kinds
    ]
    rows.append(["computed by", *(memory[precision]["recurrence"] for precision in memory)])
    return markdown(["megabytes of the runs' model, counted", *memory], rows)


def held_by_the_published_model(study: Mapping[str, Any]) -> str:
    """Return the gigabytes of a GPU by lanes."""
    memory = study["memory_of_the_published_model"]
    rows = [
        [f"{lanes} lanes", *(f"{memory[p][lanes] / 1e9:.1f}" for p in memory)]
        for lanes in memory["fp32"]
    ]
    return markdown(["gigabytes of 4,096 units, windows of 256, worked out", *memory], rows)


if __name__ == "__main__":
    command.run(main)
