"""Seconds of a data-parallel step: T = computing + stragglers + overhead + exposed exchange.

Derived here from a ring all-reduce; nothing in it is specific to a model. p is the number of GPUs,
S the bytes of the gradients, B a bandwidth, k the windows between two exchanges. GPUs wait for each
other only in an exchange.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from mlstm_sentiment.bounds import Bound, NonNegativeFloat, PositiveInt, check_bounds

Ring = Literal["gpus", "nodes"]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The links that gradients travel over. Bandwidths are sustained, in one direction."""

    gpus_per_node: int
    """GPUs of the largest node, whose all-reduce takes longest."""
    link_bytes_per_second: float
    """Bandwidth between GPUs of a node."""
    network_bytes_per_second: float
    """Bandwidth of a node to the others."""
    latency_seconds: float = 0.0
    """Time added with every doubling of the nodes."""
    ring: Ring = "gpus"
    """gpus: one ring through all GPUs. nodes: first within each node, then one ring of nodes."""
    count: int | None = None
    """Number of nodes, if they differ in size; else it follows from the number of GPUs."""

    def nodes(self, gpus: int) -> int:
        """Return the number of nodes for this many GPUs."""
        return math.ceil(gpus / self.gpus_per_node) if self.count is None else self.count

    def all_reduce_seconds(self, size: float, gpus: int, pieces: int = 1) -> float:
        """Return the seconds of an all-reduce of `size` bytes over the first `gpus` GPUs.

        pieces: equal parts that it travels in; each adds the latency.
        """
        link, network = self.link_bytes_per_second, self.network_bytes_per_second
        nodes = self.nodes(gpus)
        if nodes == 1:
            return ring_seconds(size, gpus, link)
        latency = pieces * self.latency_seconds * math.log2(nodes)
        if self.ring == "nodes":
            within = ring_seconds(size, self.gpus_per_node, link)
            return within + ring_seconds(size, nodes, network) + latency
        return ring_seconds(size, gpus, min(link, network)) + latency


@dataclass(frozen=True, kw_only=True)
class Synchronisation:
    """How gradients are exchanged; the default is 2018's: one fp16 piece after backward."""

    bytes_per_parameter: NonNegativeFloat = 2.0
    chunks: PositiveInt = 1
    """m, equal pieces, each of which is sent when it is ready."""
    overlap: Annotated[float, Bound(min=0, max=1)] = 0.0
    """f, the last fraction of the computing, in which pieces become ready at equal intervals."""
    windows: PositiveInt = 1
    """k, windows between two exchanges."""

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True)
class StepTime:
    """Seconds of one window, by what they are spent on."""

    computing: float
    straggling: float  # waiting for the slowest GPU
    overhead: float  # further cost of several GPUs, whatever they send
    exposed: float  # the part of the exchange not hidden behind computing

    @property
    def seconds(self) -> float:
        return self.computing + self.straggling + self.overhead + self.exposed

    @property
    def efficiency(self) -> float:
        """The fraction of the time that is computing: 1 for a GPU alone."""
        return self.computing / self.seconds


def ring_seconds(size: float, ranks: int, bytes_per_second: float) -> float:
    """Return 2 (p - 1) / p S / B, what every rank sends and receives (Patarasuk & Yuan 2009)."""
    return 2 * (ranks - 1) / ranks * size / bytes_per_second


def _exposed_seconds(communication: float, computing: float, how: Synchronisation) -> float:
    """Return the seconds of an exchange that computing does not hide, per window.

    max(C / m, C - f T (1 - 1 / m)): the last of m chunks is ready when backward ends, so at least
    the time to send it remains; the first is sent f T (1 - 1 / m) earlier.
    """
    m = how.chunks
    window = how.overlap * computing * (1 - 1 / m)
    return max(communication / m, communication - window) / how.windows


def _straggling_seconds(computing: float, gpus: int, jitter: float, windows: int = 1) -> float:
    """Return the expected delay of the slowest of p GPUs, per window.

    sigma T sqrt(2 ln p / k): sqrt(2 ln p) is an upper bound on the expected largest of p normal
    deviations, and the independent deviations of k windows add up to sqrt(k) times one.
    jitter: sigma, the relative standard deviation of a GPU's computing from window to window.
    """
    return jitter * computing * math.sqrt(2 * math.log(gpus) / windows)


def step_time(
    computing: float,
    parameters: int,
    gpus: int,
    fabric: Fabric,
    how: Synchronisation = Synchronisation(),
    *,
    overhead: float = 0.0,
    jitter: float = 0.0,
) -> StepTime:
    """Return the seconds of a window, given the computing time on the slowest GPU.

    overhead: further seconds per window on several GPUs, whatever they send (flattening, waiting
    for the device); a GPU alone has none.
    """
    if gpus == 1:
        return StepTime(computing, 0.0, 0.0, 0.0)
    size = how.bytes_per_parameter * parameters
    communication = fabric.all_reduce_seconds(size, gpus, how.chunks)
    return StepTime(
        computing,
        _straggling_seconds(computing, gpus, jitter, how.windows),
        overhead,
        _exposed_seconds(communication, computing, how),
    )
