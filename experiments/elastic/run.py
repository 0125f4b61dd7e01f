"""Let one thing after another happen to a run on two nodes; measure how training goes on.

python -m experiments.elastic.run --output experiments/elastic/results/faults.json   # as root
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from model.errors import InputError
from model.storage import write_json
from training.metrics import read_rows

from ..network import Unavailable, nodes
from .cluster import PATIENCE, ROOT, Cluster
from .faults import FAULTS

# Ten lanes: neither four ranks nor three divide them. Plain SGD, since Adam would blow the
# rounding of another number of ranks up where gradients are nearly zero.
SETTINGS: dict[str, Any] = {
    "model.hidden_size": 32,
    "data.lanes": 10,
    "data.window": 32,
    "optim.name": "sgd",
    "optim.lr": 0.1,
    "optim.decay": "constant",
    "train.steps": 1_000_000,
    "log.every_steps": 1,
    "evaluate.every_steps": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Make every fault, in network namespaces, to one run of two nodes with two ranks each."""

    output: Path
    """The JSON file to write."""
    logs: Path | None = None
    """A folder to keep the run and what the launchers say in."""
    rate: str = "10mbit"
    """Of each link and within nodes, as tc writes it: it sets the pace of the steps."""
    every_steps: int = 20
    """Steps between checkpoints."""
    timeout_seconds: float = 15.0
    """train.timeout_seconds."""
    only: tuple[int, ...] = ()
    """Numbers of faults, from 0, instead of all; each expects what those before it leave."""


def main() -> None:
    options = command.parse(Options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # tidies up first
    chosen = {key: vars(options)[key] for key in ("rate", "every_steps", "timeout_seconds")}
    settings = {key: str(value) for key, value in {**SETTINGS, **chosen}.items()}
    result: dict[str, Any] = {"faults": [], "settings": settings, "origin": describe_origin()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with nodes(2, options.rate, loopback=True) as laid:
                main_py = arguments(folder / "run", options)
                metrics = folder / "run" / "metrics.jsonl"
                cluster = Cluster(laid, folder, main_py, metrics)
                for row in happenings(cluster, options):
                    result["faults"].append(row)
                    write_json(options.output, result)
        except Unavailable as error:
            raise InputError(f"no network to try it on: {error}") from error
        write_json(options.output, {**result, **compare(folder, options)})


def arguments(run_dir: Path, options: Options) -> list[str]:
    """Return main.py and its options."""
    keys = {
        **SETTINGS,
        "checkpoint.every_steps": options.every_steps,
        "train.timeout_seconds": options.timeout_seconds,
    }
    words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
    return ["main.py", "--run-dir", str(run_dir), *words]


def happenings(cluster: Cluster, options: Options) -> Iterator[dict[str, Any]]:
    """Start the run, make the faults one after the other, stop it; yield what each one did."""
    cluster.start(0, 1)
    cluster.recovery({}, 0.0, ranks=2 * cluster.workers)
    print(f"{'fault':<48}{'seconds':>8}{'ranks':>6}{'lost':>6}")
    for fault in [FAULTS[number] for number in options.only] or FAULTS:
        # Half-way between two checkpoints, and past at least one of this start.
        to_the_next = -cluster.step() % options.every_steps
        cluster.await_steps(to_the_next + options.every_steps // 2)
        row = {"fault": fault.name, **fault.make(cluster), "load": os.getloadavg()[0]}
        ranks = row.get("ranks", 2 * cluster.workers)
        print(f"{fault.name:<48}{row['seconds']:>8.1f}{ranks:>6}{row['steps_lost']:>6}", flush=True)
        yield row
    cluster.terminate(0, 1)
    cluster.await_end(0, 1)


def compare(folder: Path, options: Options) -> dict[str, Any]:
    """Train as far in one process that nothing disturbs; return how far the losses differ."""
    disturbed = read_rows(folder / "run" / "metrics.jsonl")
    alone = folder / "alone"
    steps = ["--train.steps", str(disturbed[-1]["step"])]
    subprocess.run(
        [sys.executable, *arguments(alone, options), *steps],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        timeout=10 * PATIENCE,
        check=True,
    )
    rows = read_rows(alone / "metrics.jsonl")
    if [row["step"] for row in rows] != [row["step"] for row in disturbed]:
        raise InputError("the disturbed run skipped or repeated a step")
    key = "train_bits_per_character"
    pairs = [(row[key], other[key]) for row, other in zip(rows, disturbed, strict=True)]
    difference = max(abs(a - b) / a for a, b in pairs)
    print(f"{len(rows)} steps; losses differ by at most {difference:.1e} from an undisturbed run's")
    return {"steps": len(rows), "largest_relative_difference_of_losses": difference}


if __name__ == "__main__":
    command.run(main)
