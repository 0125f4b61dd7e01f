"""Measure what each way to exchange gradients costs over real links, with sleep for computing.

python -m experiments.exchange.replay --profiles experiments/exchange/results/readiness.json \\
    --output experiments/exchange/results/replay.json        # as root
"""

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from configs import command
from data_utils.provenance import describe_origin
from experiments.emulation.ranks import Ranks, emulated_nodes
from model.files.storage import read_json, write_json
from model.language_model import ModelConfig, build_model

from .readiness import KINDS, ONE_BY_ONE, named

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
    """Replay a step of the published model with a hundredth of its bytes and link rate.

    Seconds then equal those of the original: 4,096 units, 10 Gb/s, and 0.81 s of computing on a
    V100 (Puri et al.).
    """

    profiles: Path
    """The file that experiments.exchange.readiness wrote."""
    output: Path
    """The JSON file to write."""
    ranks: int = 4
    """Number of nodes; each has one rank."""
    rate: str = "100mbit"
    """Rate of each link, as tc writes it."""
    hidden_size: int = 357
    """Units of a model that has a hundredth of the parameters of 4,096 units."""
    seconds: float = 0.81
    """Seconds of computing in a step."""
    backward: float = 2 / 3
    """Part of the computing that is the backward pass."""
    bucket_cap_mb: float = 0.1
    """Size of a bucket: a hundredth of 10 MB."""
    steps: int = 7
    """Measured steps of each way."""


def main() -> None:
    options = command.parse(Options, __doc__)
    profiles, rows = read_json(options.profiles), []
    print(f"{'gradients ready':<17}{'exchange':<20}{'MB sent':>9}{'exposed':>9}{'step':>8}")
    with emulated_nodes(options.ranks, options.rate) as ranks:
        for row in replay(profiles, ranks, options):
            rows.append(row)
            print(
                f"{row['profile']:<17}{row['way']:<20}{row['sent_bytes'] / 1e6:>9.2f}"
                f"{row['exposed_seconds']:>9.3f}{row['seconds']:>8.3f}",
                flush=True,
            )
    settings = {key: str(value) for key, value in vars(options).items()}
    facts = {"load": os.getloadavg(), "origin": describe_origin()}
    write_json(options.output, {"rows": rows, "settings": settings, **facts})


def replay(
    profiles: dict[str, Any], ranks: Ranks, options: Options
) -> Iterator[dict[str, str | float]]:
    """Yield what each way to exchange costs with each profile: medians over the steps."""
    for profile in KINDS:
        leaves = leaves_of(profiles[profile]["leaves"], options, split=profile == ONE_BY_ONE)
        for way, keys in WAYS.items():
            case = {
                "kind": "step",
                "leaves": leaves,
                "by_clock": False,  # what the exchange computes delays the step
                "seconds": options.seconds,
                "backward": options.backward,
                "windows": 1,
                "parallel": {"bucket_cap_mb": options.bucket_cap_mb, **keys},
                "turns": options.steps,
            }
            (turns,) = ranks.take([case], options.ranks)
            medians = {
                key: statistics.median(turn[key] for turn in turns)
                for key in ("seconds", "exposed_seconds", "sent_bytes")
            }
            yield {"profile": profile, "way": way, **medians}


def leaves_of(
    profile: list[dict[str, Any]], options: Options, *, split: bool
) -> list[dict[str, Any]]:
    """Return the leaves of the small model, each with the moment that the profile has for it."""
    model = build_model(ModelConfig(hidden_size=options.hidden_size), seed=0)
    shapes = {name: list(leaf.shape) for name, leaf in named(model, split=split).items()}
    return [{"shape": shapes[row["name"]], "ready": row["ready"]} for row in profile]


if __name__ == "__main__":
    torch.set_num_threads(1)
    command.run(main)
