"""Bits at equal seconds: the kernels before and after, numbers of lanes, and the recipe of 2018.

The seconds of a step are measured first, all variants in turn: the CPU time of a step, since other
programs change it little. Each variant then trains as many steps as fit into the same seconds.
So the runs themselves need no idle machine. The kernels before give the same bits for the same
steps (README.md), so their runs are made with the ones of today, and fewer steps.

python -m experiments.speed.equal_seconds --before OLD_CHECKOUT --corpus data/reviews \\
    --work runs/equal_seconds --output equal_seconds.json
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from mlstm_sentiment.files.writer import write_json

HERE = Path(__file__).resolve().parents[2]
SECONDS = {512: 60, 1024: 120}  # CPU seconds of a run's steps
SEEDS = (0, 1, 2)
ROUNDS = 5  # of measuring the steps


@dataclass(frozen=True)
class Variant:
    """A recipe at some number of lanes, on the kernels of one revision."""

    units: int
    lanes: int
    window: int = 128
    before: bool = False  # the kernels of the old checkout
    published: bool = False  # the recipe of 2018

    @property
    def name(self) -> str:
        what = "2018" if self.published else "before" if self.before else "ours"
        return f"{what}_{self.units}_{self.lanes}"

    @property
    def optimizer(self) -> str:
        return "adam" if self.published else "muon"

    def recipe(self) -> list[str]:
        """Return the options of main.py that say how it learns."""
        if self.published:
            return ["--model.hidden-size", str(self.units), "--data.window", str(self.window)]
        return ["--config", str(HERE / "configs" / f"cpu_{self.units}.toml")]


VARIANTS = [
    *(Variant(512, lanes) for lanes in (64, 128, 256)),
    Variant(512, 64, before=True),
    Variant(512, 128, window=256, published=True),
    *(Variant(1024, lanes) for lanes in (128, 256)),
    Variant(1024, 128, before=True),
    Variant(1024, 128, window=256, published=True),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Bits at equal seconds."""

    before: Path
    """A checkout of the revision to compare with."""
    corpus: Path
    """Folder of a prepared corpus of bytes."""
    work: Path
    """Folder for the runs; finished ones are not repeated."""
    output: Path
    """JSON file for the result."""


def main() -> int:
    options = command.parse(Options, __doc__)
    options.work.mkdir(parents=True, exist_ok=True)
    seconds = measured_steps(options)
    runs = [
        {**asdict(variant), "name": variant.name, "seed": seed, "steps": steps}
        | trained(variant, options, seed, steps)
        for seed in SEEDS
        for variant in VARIANTS
        for steps in [round(SECONDS[variant.units] / median(seconds[variant.name]))]
    ]
    result = {"seconds": SECONDS, "seconds_of_a_step": seconds, "runs": runs}
    write_json(options.output, {**result, "origin": describe_origin()}, "a result")
    return 0


def measured_steps(options: Options) -> dict[str, list[float]]:
    """Return the CPU seconds of each variant's steps, of which all threads are counted."""
    kept = options.work / "steps.json"
    if kept.exists():
        return json.loads(kept.read_text())
    seconds: dict[str, list[float]] = {variant.name: [] for variant in VARIANTS}
    for _ in range(ROUNDS):
        for variant in VARIANTS:
            seconds[variant.name].append(_step(variant, options))
    write_json(kept, seconds, "a result")
    return seconds


_STEPS = """
import sys
from time import process_time
import torch
torch.set_num_threads(1)
from data_utils.corpus import embedded_corpus
from data_utils.lanes import Lanes
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import launched
from training.precision import sums_in_fp32
from training.trainer import TrainConfig, Trainer
units, lanes, window, optimizer = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with launched("cpu") as world, sums_in_fp32():
    text = Lanes(embedded_corpus().splits["train"], lanes=lanes, window=window)
    model = build_model(ModelConfig(hidden_size=units), seed=0, compute_dtype=torch.bfloat16)
    optim, train = OptimConfig(name=optimizer, clip_norm=1.0), TrainConfig(precision="bf16")
    trainer = Trainer(model, optim=optim, train=train, world=world, lanes=lanes, steps=99, seed=0)
    batch = as_batch(text[0], world.device)
    trainer.train(batch)
    begin = process_time()
    for _ in range(3):
        trainer.train(batch)
    print((process_time() - begin) / 3)
"""


def _step(variant: Variant, options: Options) -> float:
    words = [str(n) for n in (variant.units, variant.lanes, variant.window, variant.optimizer)]
    where = options.before if variant.before else HERE
    command_line = [sys.executable, "-c", _STEPS, *words]
    ended = subprocess.run(command_line, cwd=where, capture_output=True, text=True, check=True)
    return float(ended.stdout.split()[-1])


def trained(variant: Variant, options: Options, seed: int, steps: int) -> dict[str, Any]:
    """Train unless that is done; return the bits and characters at the end."""
    folder = options.work / f"{variant.name}_{seed}"
    if not (folder / "model").exists():
        subprocess.run(
            [
                *(sys.executable, "main.py", "--data.corpus", options.corpus.resolve()),
                *(*variant.recipe(), "--data.lanes", str(variant.lanes), "--seed", str(seed)),
                *("--train.steps", str(steps), "--train.precision", "bf16"),
                *("--evaluate.every-steps", str(steps), "--checkpoint.every-steps", str(steps)),
                *("--log.every-steps", str(max(steps // 20, 1)), "--run-dir", folder.resolve()),
            ],
            cwd=HERE,
            check=True,
        )
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if "valid_bits_per_character" in row][-1]
    return {"valid": last["valid_bits_per_character"], "characters": last["characters"]}


if __name__ == "__main__":
    command.run(main)
