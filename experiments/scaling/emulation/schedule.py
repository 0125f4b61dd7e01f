"""Predict exposed seconds from the moments of gradients and their buckets."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from model.errors import InputError
from model.language_model import VOCABULARY_SIZE
from scaling.step_time import ring_seconds

BACKWARD = 2 / 3  # the part of computing that is backward
FP32_BYTES, FP16_BYTES = 4, 2  # bytes of a number in memory, and as it travels
MEGABYTE = 2**20


@dataclass(frozen=True)
class Leaf:
    """A tensor that receives a gradient."""

    numbers: float
    ready: float  # its moment, as a part of backward


def recorded(profiles: dict[str, Any], kind: str, hidden_size: int = 4096) -> list[Leaf]:
    """Return a model's leaves with the moments that experiments/exchange measured, in their order.

    The measured model had fewer units, so the sides of its tensors that depend on them grow here.
    The moments, which are parts of backward, stay the same.
    """
    try:
        H, rows = profiles["settings"]["hidden_size"], profiles[kind]["leaves"]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"--profiles: no {error} in it; experiments.exchange.readiness writes such files"
        ) from error
    if H <= VOCABULARY_SIZE:
        raise InputError(f"--profiles: of {H} units; at least {VOCABULARY_SIZE + 1} are needed")
    leaves = []
    for row in rows:
        sides = (side // H * hidden_size if side % H == 0 else side for side in row["shape"])
        leaves.append(Leaf(math.prod(sides), row["ready"]))
    return leaves


def feed_forward(numbers: float, leaves: int) -> list[Leaf]:
    """Return equal leaves that become ready at equal intervals, like those of many layers."""
    return [Leaf(numbers / leaves, (number + 1) / leaves) for number in range(leaves)]


def in_buckets(leaves: Sequence[Leaf], cap_bytes: float) -> list[Leaf]:
    """Return the buckets that DDP makes of leaves (Li et al. 2020).

    A bucket is full as soon as it reaches the cap, and is sent when its last leaf is ready.
    """
    buckets: list[Leaf] = []
    filling = 0.0
    for leaf in leaves:
        filling += leaf.numbers
        if filling * FP32_BYTES >= cap_bytes:
            buckets.append(Leaf(filling, leaf.ready))
            filling = 0.0
    return [*buckets, Leaf(filling, leaves[-1].ready)] if filling else buckets


def exposed_seconds(
    pieces: Iterable[Leaf], computing: float, nodes: int, bytes_per_second: float
) -> float:
    """Return the seconds after backward in which pieces still travel.

    They travel one after the other, in fp16 through a ring.
    """
    done = 0.0
    for piece in pieces:
        ready = computing * (1 - BACKWARD * (1 - piece.ready))
        done = max(done, ready) + ring_seconds(piece.numbers * FP16_BYTES, nodes, bytes_per_second)
    return max(done - computing, 0.0)
