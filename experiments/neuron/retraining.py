"""Does it follow the optimizer, the decay, the width or the text that one unit stands out?

python -m experiments.neuron.retraining --everything data/everything --reviews data/pieces \\
    --data DATA --work runs/retraining

Each condition differs from `base` in one thing; those of Adam differ from `no_decay`. All read the
same number of tokens, from the first step until the rate has fallen to zero. Finished runs in WORK
are not repeated, so the command can be stopped and started again. Units and axes are those of
axes.py: chosen on SST's train split, read on val; no test set is read.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.neuron.axes import measured, read_sst
from experiments.results import write_result

HERE = Path(__file__).resolve().parents[2]
LANES, WINDOW, STEPS = 64, 64, 2100
BASE = {
    "--data.lanes": LANES,
    "--data.window": WINDOW,
    "--model.hidden-size": 256,
    "--model.embedding-size": 128,
    "--model.forget-gate-bias": 1.0,
    "--optim.name": "muon",
    "--optim.lr": 1e-2,
    "--optim.weight-decay": 0.1,
    "--optim.warmup": 0.02,
    "--optim.hold": 0.7,
    "--optim.clip-norm": 1.0,
    "--train.steps": STEPS,
    "--evaluate.every-steps": STEPS,
    "--checkpoint.every-steps": STEPS // 4,
    "--checkpoint.keep": 1,
}
NO_DECAY = {"--optim.weight-decay": 0.0}
CONDITIONS: dict[str, dict[str, Any]] = {
    "base": {},
    "no_decay": NO_DECAY,
    "adam_2e-2": {**NO_DECAY, "--optim.name": "adam", "--optim.lr": 2e-2},
    "adam_4e-2": {**NO_DECAY, "--optim.name": "adam", "--optim.lr": 4e-2},
    "adam_8e-2": {**NO_DECAY, "--optim.name": "adam", "--optim.lr": 8e-2},
    "reviews": {},  # of Amazon alone
    "128_units": {"--model.hidden-size": 128},
    "512_units": {"--model.hidden-size": 512},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train networks that differ in one thing, and write a row for each."""

    everything: Path
    """The prepared corpus of all permitted text, in subword tokens."""
    reviews: Path
    """The prepared corpus of Amazon's reviews alone, with the same tokens."""
    data: Path
    """The folder that holds sst/{train,val}.csv."""
    work: Path
    """Folder for the runs."""
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    """Which networks to train."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Each condition is trained once with each."""


def main() -> None:
    options = command.parse(Options, __doc__)
    for seed in options.seeds:
        for condition in options.conditions:
            name = f"{condition}_seed{seed}"
            folder = options.work / name
            train(folder, condition, seed, options)
            last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
            _, train_part, val_part = read_sst(str(folder / "model"), options.data)
            row = {
                "condition": condition,
                "seed": seed,
                "characters": last["characters"],
                "bits": last["valid_bits_per_character"],
                **measured(train_part, val_part, pruned=()),
                "origin": describe_origin(),
            }
            print(name, row)
            write_result("neuron", f"retraining/{name}", row)


def train(folder: Path, condition: str, seed: int, options: Options) -> None:
    """Train one network, or what is left of its training."""
    if (folder / "model").exists():
        return
    corpus = options.reviews if condition == "reviews" else options.everything
    settings = {**BASE, **CONDITIONS[condition], "--data.corpus": corpus.resolve(), "--seed": seed}
    words = ["--run-dir", str(folder), "--if-exists", "resume"]
    words += [str(each) for pair in settings.items() for each in pair]
    subprocess.run([sys.executable, "main.py", *words], cwd=HERE, check=True)


if __name__ == "__main__":
    command.run(main)
