"""Calculations: parameter servers against a ring, revoked machines, the memory of devices.

python -m experiments.scaling.costs --servers SERVERS.json --revocations REVOCATIONS.json \\
    --devices DEVICES.json
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import EXPERIMENTS
from model.files.storage import read_json, write_json
from model.layers.config import ModelConfig
from scaling.step_time import ring_seconds
from scaling.workload import MemoryModel, Workload

RESULTS = EXPERIMENTS / "scaling/results"
PUBLISHED = ModelConfig(hidden_size=4096)
COMPUTING = 0.807  # seconds of a step of 4,096 units, from the text of Puri et al. 2018
GPUS_PER_NODE = 8
FP16, FP32 = 2, 4  # bytes
# Of a run that is revoked: hours of work, servers, minutes until another server comes.
HOURS, SERVERS, REPLACEMENT = 24.0, (4, 16, 64), 5.0
RATES = (0.01, 0.05, 0.1)  # revocations of a server per hour
INTERVALS = (1.0, 10.0)  # minutes between checkpoints
PRICE = 0.3  # of an hour of a server that may be revoked, over one on demand
RUNS, SEED = 100, 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Calculate from measured and published numbers; only what has a file."""

    servers: Path | None = None
    """File for parameter servers against a ring."""
    revocations: Path | None = None
    """File for the cost of a run whose servers are revoked."""
    devices: Path | None = None
    """File for the memory of devices under DataParallel and DDP."""


def main() -> None:
    options = command.parse(Options, __doc__)
    for path, calculate in (
        (options.servers, compare_servers),
        (options.revocations, compare_costs),
        (options.devices, compare_devices),
    ):
        if path is not None:
            write_json(path, {**calculate(), "origin": describe_origin()})


def compare_servers() -> dict[str, Any]:
    """Return the seconds of an exchange over servers and over a ring, 4,096 units in fp16.

    A node's link takes `bandwidth` in both directions at once. Each worker pushes its gradient S
    and pulls the weights S, divided among n servers: 2 w S / (n B) at a server's link for w
    workers, and at least 2 S w / N / B at that of a node. Lemma (Zou et al. 2017): computing C
    hides it from n = 2 w S / (B C) servers on.
    """
    bandwidth = read_json(RESULTS / "published.json")["parameters"]["ethernet_bytes_per_second"]
    size = FP16 * Workload.of(PUBLISHED).parameters
    rows = []
    for nodes in (2, 4, 8, 16):
        gpus = GPUS_PER_NODE * nodes
        row: dict[str, Any] = {"nodes": nodes, "gpus": gpus}
        row["ring"] = ring_seconds(size, gpus, bandwidth)
        for name, workers in (("every GPU", gpus), ("every node", nodes)):
            one, least = 2 * workers * size / bandwidth, 2 * workers / nodes * size / bandwidth
            row[name] = {
                "one server": one,
                "a server for each node": max(one / nodes, least),
                "servers to hide it": math.ceil(one / COMPUTING),
                "can be hidden": least <= COMPUTING,
            }
        rows.append(row)
    return {"rows": rows, "bytes": size, "bandwidth": bandwidth, "computing": COMPUTING}


def compare_costs() -> dict[str, Any]:
    """Return hours and price of a run on servers that are revoked, relative to servers on demand.

    A server is revoked at random, at a rate per hour. The others stop, go on without it, and stop
    again when another one takes its place; each time everything waits for as many seconds as were
    measured. Without notice, the work since the last checkpoint is lost, too.
    """
    faults = {row["fault"]: row for row in read_json(RESULTS / "elastic/faults.json")["faults"]}
    seconds = {
        "notice": faults["SIGTERM to one node"]["seconds"],
        "no notice": faults["a node lost (kill -9 of all on it)"]["seconds"],
        "notice, back": faults["that node comes back"]["seconds"],
        "no notice, back": faults["the node comes back"]["seconds"],
    }
    random = np.random.default_rng(SEED)
    cases = [("notice", None), *(("no notice", interval) for interval in INTERVALS)]
    rows = [
        {"servers": servers, "rate": rate, "how": how, "interval": interval}
        | simulated(random, servers, rate, seconds[how], seconds[f"{how}, back"], interval)
        for servers in SERVERS
        for rate in RATES
        for how, interval in cases
    ]
    return {
        "rows": rows,
        "seconds": seconds,
        "hours": HOURS,
        "replacement_minutes": REPLACEMENT,
        "price": PRICE,
        "runs": RUNS,
        "seed": SEED,
    }


def simulated(
    random: np.random.Generator,
    servers: int,
    rate: float,
    leaves: float,
    comes: float,
    interval: float | None,
) -> dict[str, Any]:
    """Return how much longer a run takes; leaves, comes: seconds; interval: minutes."""
    stretches = [
        hours_of_run(random, servers, rate, leaves, comes, interval) / HOURS for _ in range(RUNS)
    ]
    ends = np.quantile(stretches, (0.025, 0.975)).tolist()
    stretch = median(stretches)
    return {"stretch": stretch, "stretch_range": ends, "cost": PRICE * stretch}


def hours_of_run(
    random: np.random.Generator,
    servers: int,
    rate: float,
    leaves: float,
    comes: float,
    interval: float | None,
) -> float:
    """Return the hours of one run, event by event."""
    clock, done, present = 0.0, 0.0, servers  # done: hours of all servers' work
    returns: list[float] = []  # when others come
    while done < HOURS:
        speed = present / servers
        revoked = clock + random.exponential(1 / (rate * present)) if present else math.inf
        returned = min(returns, default=math.inf)
        ends = clock + (HOURS - done) / speed if present else math.inf
        event = max(min(revoked, returned, ends), clock)  # others may have come during a stop
        done += (event - clock) * speed
        clock = event
        if ends <= min(revoked, returned):
            break
        if returned <= revoked:
            returns.remove(returned)
            present += 1
            clock += comes / 3600
        else:
            present -= 1
            returns.append(clock + REPLACEMENT / 60)
            clock += leaves / 3600
            if interval is not None:
                done = max(0.0, done - random.uniform(0, interval) / 60 * speed)
    return clock


def compare_devices() -> dict[str, Any]:
    """Return the bytes of a device at 4,096 units, 32 lanes each, windows of 256 bytes, in fp32.

    DataParallel: the first device has the weights, their gradients, the optimizer's state, its
    activations and the outputs of all devices, gathered for the loss, in fp32 three times: logits,
    their logarithms, their gradient. Another has a copy of the weights as the products read them,
    their gradients, and activations. DDP: every device has what a single one has.
    """
    lanes, window, copies = 32, 256, 3
    parameters = Workload.of(PUBLISHED).parameters
    model = MemoryModel(
        model=PUBLISHED, window=window, precision="fp32", gradient_bytes=0.0, graphs=False
    )
    alone = model.needed(lanes)
    logits = lanes * window * PUBLISHED.resolved_vocabulary_size * FP32
    rows = [
        {
            "gpus": gpus,
            "first": alone.total + copies * gpus * logits,
            "another": alone.weights + parameters * FP32 + alone.activations + alone.runtime,
            "ddp": replace(model, gradient_bytes=4.0).needed(lanes).total + copies * logits,
        }
        for gpus in (2, 4, 8)
    ]
    return {"rows": rows, "lanes": lanes, "window": window}


if __name__ == "__main__":
    command.run(main)
