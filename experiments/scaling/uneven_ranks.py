"""Train on ranks of unequal speed and memory; the slow ones sleep, the small ones refuse lanes.

python -m experiments.scaling.uneven_ranks --corpus PART --output F.json

Every case is a run of main.py on real ranks over gloo. Its gradients and their exchange are real.
A rank's computing is lengthened by sleep to lanes / speed; a rank that is given more lanes at once
than its memory holds raises MemoryError.
"""

import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.scaling.measuring.launch import RANKS_HERE, rows_of, run_to_end
from model.files.storage import write_json

SPEEDS = (40.0, 20.0, 10.0, 10.0)  # lanes per second
HOLDS = (8, 16, 16, 16)  # lanes at once
LANES, WINDOW = 32, 32
CASES: dict[str, dict[str, Any]] = {
    "the first rank alone": {"ranks": 1, "parallel.lane_groups": 4},
    "even": {},
    "measured": {"parallel.shares": "measured"},
    "measured, two micro-batches": {"parallel.shares": "measured", "parallel.lane_groups": 2},
    "by speed within memory": {"parallel.shares": "8 12 6 6"},
}
SETTINGS = {
    "model.hidden_size": 32,
    "data.lanes": LANES,
    "data.window": WINDOW,
    "optim.lr": 0.01,
    "optim.clip_norm": 1.0,
    "train.precision": "fp32",
    "train.device": "cpu",
    "log.every_steps": 5,
    "checkpoint.every_steps": 5,
}
IS_RANK = "UNEVEN_RANK"  # set for the processes that train


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train every case several times, in turns."""

    corpus: Path
    """A prepared corpus of bytes."""
    output: Path
    """File of the results."""
    steps: int = 30
    """Steps of a run; those of its second half count."""
    rounds: int = 2
    """Runs of every case."""


def main() -> None:
    options = command.parse(Options, __doc__)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for turn in range(options.rounds):
        for name in CASES:
            runs[name].append(train(options, name))
            print(turn, name, runs[name][-1]["milliseconds"], runs[name][-1]["failure"], flush=True)
    losses = {name: run[0]["bits"] for name, run in runs.items() if run[0]["bits"]}
    alone = losses["the first rank alone"]
    result = {
        "cases": {name: described(name, found, alone) for name, found in runs.items()},
        "speeds": SPEEDS,
        "holds": HOLDS,
        "load": os.getloadavg(),
        "config": {**asdict(options), "corpus": options.corpus.name, "output": options.output.name}
        | SETTINGS,
        "origin": describe_origin(),
    }
    write_json(options.output, result)


def train(options: Options, name: str) -> dict[str, Any]:
    """Return the milliseconds of a step, and the losses, of a run; or why it failed."""
    given = dict(CASES[name])
    ranks = given.pop("ranks", len(SPEEDS))
    keys = {**SETTINGS, **given, "train.steps": options.steps, "evaluate.every_steps": 10**6}
    words = [sys.executable, *RANKS_HERE, str(ranks), "-m", "experiments.scaling.uneven_ranks"]
    os.environ[IS_RANK] = "1"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words += ["--run-dir", str(run), "--data.corpus", str(options.corpus.resolve())]
        words += [word for key, value in keys.items() for word in (f"--{key}", *str(value).split())]
        failure = run_to_end(words, threads=1, timeout=600)
        rows = rows_of(run)
    del os.environ[IS_RANK]
    late = rows[len(rows) // 2 :] if failure is None else []
    return {
        "failure": failure,
        "milliseconds": [1000 * LANES * WINDOW / row["characters_per_second"] for row in late],
        "bits": [row["train_bits_per_character"] for row in rows] if failure is None else [],
    }


def described(name: str, runs: list[dict[str, Any]], alone: list[float]) -> dict[str, Any]:
    """Return the median step of all runs, and how far their losses are from one rank's."""
    steps = [value for run in runs for value in run["milliseconds"]]
    gaps = [
        abs(a - b) / b
        for run in runs
        if run["bits"]
        for a, b in zip(run["bits"], alone, strict=True)
    ]
    return {
        "settings": CASES[name],
        "failure": runs[0]["failure"],
        "milliseconds": median(steps) if steps else None,
        "range": [min(steps), max(steps)] if steps else None,
        "largest_relative_difference_of_losses": max(gaps) if gaps else None,
        "runs": runs,
    }


def be_a_rank() -> int:
    """Run main.py as a rank whose computing takes as long as its speed says."""
    from main import main as pretrain
    from training.objective import Objective

    rank, forward = int(os.environ.get("RANK", "0")), Objective.forward

    def slowed(self: Objective, tokens: Any, *args: Any, **kwargs: Any) -> Any:
        lanes = len(tokens)
        if lanes > HOLDS[rank]:
            raise MemoryError(f"{lanes} lanes at once, of which rank {rank} holds {HOLDS[rank]}")
        began = time.perf_counter()
        result = forward(self, tokens, *args, **kwargs)
        if tokens.numel() > 1:  # DDP's rehearsal has one token
            time.sleep(max(0.0, lanes / SPEEDS[rank] - (time.perf_counter() - began)))
        return result

    Objective.forward = slowed  # type: ignore[method-assign]
    return pretrain()


if __name__ == "__main__":
    command.run(be_a_rank if IS_RANK in os.environ else main)
