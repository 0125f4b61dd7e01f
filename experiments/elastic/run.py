"""Cause one fault after another in a run on two nodes, and measure how training recovers.

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
from model.files.storage import write_json
from training.metrics import read_rows

from ..emulation.network import Unavailable, nodes
from .cluster import PATIENCE, ROOT, Cluster
from .faults import FAULTS

# Neither four ranks nor three divide ten lanes. Plain SGD: where gradients are nearly zero, Adam
# would amplify the rounding errors of another number of ranks.
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
    """Cause every fault in one run on two nodes (network namespaces) of two ranks each."""

    output: Path
    """The JSON file to write."""
    logs: Path | None = None
    """Folder in which the run and the launchers' output are kept."""
    rate: str = "10mbit"
    """Rate of each link and within nodes, as tc writes it; it determines the speed of the steps."""
    every_steps: int = 20
    """Steps between checkpoints."""
    timeout_seconds: float = 15.0
    """train.timeout_seconds."""
    only: tuple[int, ...] = ()
    """Numbers of the faults to cause, from 0; each expects the state that earlier ones leave."""


def main() -> None:
    options = command.parse(Options)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # removes the nodes first
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
    """Return main.py with its options."""
    keys = {
        **SETTINGS,
        "checkpoint.every_steps": options.every_steps,
        "train.timeout_seconds": options.timeout_seconds,
    }
    words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
    return ["main.py", "--run-dir", str(run_dir), *words]


def happenings(cluster: Cluster, options: Options) -> Iterator[dict[str, Any]]:
    """Start the run, cause the faults one by one, stop it; yield the result of each fault."""
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
    """Train undisturbed for as many steps, in one process and on four ranks; compare losses."""
    steps = read_rows(folder / "run" / "metrics.jsonl")[-1]["step"]
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    for name, launcher in (("alone", []), ("together", ranks)):
        main_py = [*arguments(folder / name, options), "--train.steps", str(steps)]
        subprocess.run(
            [sys.executable, *launcher, *main_py],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            timeout=10 * PATIENCE,
            check=True,
        )
    result = differences(folder)
    print(f"{steps} steps; largest relative difference of losses from those of one process:")
    for name, by_steps in result["largest_relative_difference_of_losses"].items():
        print(f"{name:<12}", *(f"{key}: {value:.1e}" for key, value in by_steps.items()))
    return result


def differences(folder: Path) -> dict[str, Any]:
    """Return the largest difference of two runs' losses from those of one process, by steps."""
    alone, *others = (
        read_rows(folder / name / "metrics.jsonl") for name in ("alone", "run", "together")
    )
    steps = [row["step"] for row in alone]
    found: dict[str, dict[str, float]] = {}
    for name, rows in zip(("disturbed", "undisturbed"), others, strict=True):
        if [row["step"] for row in rows] != steps:
            raise InputError(f"the {name} run skipped or repeated a step")
        key = "train_bits_per_character"
        pairs = zip(rows, alone, strict=True)
        relative = [abs(row[key] - other[key]) / other[key] for row, other in pairs]
        ends = [*range(100, len(steps), 100), len(steps)]
        found[name] = {f"to step {end}": max(relative[:end]) for end in ends}
    return {"steps": len(steps), "largest_relative_difference_of_losses": found}


if __name__ == "__main__":
    command.run(main)
