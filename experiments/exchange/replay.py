"""What each way to exchange gradients costs, on real links with computing replaced by sleep.

python -m experiments.exchange.replay --profiles experiments/exchange/results/readiness.json \\
    --output experiments/exchange/results/replay.json        # as root
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from configs import command
from data_utils.provenance import describe_origin
from model.errors import InputError
from model.files.storage import read_json, write_json
from model.language_model import ModelConfig, build_model

from ..network import Node, Unavailable, nodes
from .readiness import KINDS, ONE_BY_ONE, named

ROOT = Path(__file__).resolve().parent.parent.parent
PORT = 29400

WAYS: dict[str, dict[str, Any]] = {
    "fp32, flat": {"flat": True},
    "fp32": {},
    "fp16, flat (2018)": {"flat": True, "compression": "fp16"},
    "fp16": {"compression": "fp16"},
    "bf16": {"compression": "bf16"},
    "PowerSGD, rank 4": {"compression": "powersgd", "powersgd_start": 2},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Replay the published model's step at a hundredth of its bytes over a hundredth of the link.

    The seconds are then those of the real thing: 4,096 units, 10 Gb/s, Puri et al.'s step of 0.81 s
    on a V100.
    """

    profiles: Path
    """What readiness.py wrote."""
    output: Path
    """The JSON file to write."""
    ranks: int = 4
    """Nodes, one rank each."""
    rate: str = "100mbit"
    """Of each link, as tc writes it."""
    hidden_size: int = 357
    """Units of a model with a hundredth of 4,096 units' parameters."""
    seconds: float = 0.81
    """A step's computing."""
    backward: float = 2 / 3
    """The part of it that is backward."""
    bucket_cap_mb: float = 0.1
    """A bucket: a hundredth of 10 MB."""
    steps: int = 7
    """Steps that count, for each way."""


def main() -> None:
    options = command.parse(Options)
    profiles = read_json(options.profiles)
    cases = [
        {
            "profile": profile,
            "way": way,
            "leaves": leaves_of(profiles[profile]["leaves"], options, split=profile == ONE_BY_ONE),
            "parallel": {"bucket_cap_mb": options.bucket_cap_mb, **keys},
        }
        for profile in KINDS
        for way, keys in WAYS.items()
    ]
    print(f"{'gradients ready':<17}{'exchange':<20}{'MB sent':>9}{'exposed':>9}{'step':>8}")
    rows = []
    for case, measured in zip(cases, replay(cases, options), strict=True):
        rows.append({"profile": case["profile"], "way": case["way"], **measured})
        print(
            f"{case['profile']:<17}{case['way']:<20}{measured['sent_bytes'] / 1e6:>9.2f}"
            f"{measured['exposed_seconds']:>9.3f}{measured['seconds']:>8.3f}",
            flush=True,
        )
    settings = {key: str(value) for key, value in vars(options).items()}
    facts = {"load": os.getloadavg(), "origin": describe_origin()}
    write_json(options.output, {"rows": rows, "settings": settings, **facts})


def leaves_of(
    profile: list[dict[str, Any]], options: Options, *, split: bool
) -> list[dict[str, Any]]:
    """Return the small model's leaves, each with its moment in the profile, in that order."""
    model = build_model(ModelConfig(hidden_size=options.hidden_size), seed=0)
    shapes = {name: list(leaf.shape) for name, leaf in named(model, split=split).items()}
    return [{"shape": shapes[row["name"]], "ready": row["ready"]} for row in profile]


def replay(cases: list[dict[str, Any]], options: Options) -> Iterator[dict[str, Any]]:
    """Run all ranks, one a namespace; yield what the first one measures of each case."""
    request = {
        "cases": cases,
        "seconds": options.seconds,
        "backward": options.backward,
        "steps": options.steps,
    }
    try:
        with nodes(options.ranks, options.rate) as laid:
            ranks = [start(node, laid[0].address, request, options.ranks) for node in laid]
            output = ranks[0].stdout
            assert output is not None
            yield from map(json.loads, output)
            if any(rank.wait(timeout=60) for rank in ranks):
                raise InputError("a rank failed; what it said stands above")
    except Unavailable as error:
        raise InputError(f"no network to replay on: {error}") from error


def start(node: Node, first: str, request: dict[str, Any], ranks: int) -> "subprocess.Popen[str]":
    """Start a node's rank; first: the address of the first node."""
    environment = {
        **os.environ,
        "RANK": str(node.number),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": first,
        "MASTER_PORT": str(PORT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    rank = [sys.executable, "-m", "experiments.exchange.rank", json.dumps(request)]
    return subprocess.Popen(
        node.within(*rank),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    command.run(main)
