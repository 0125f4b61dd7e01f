"""Clusters, described in TOML files: nodes and the network between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from mlstm_sentiment.bounds import Bound, check_bounds
from mlstm_sentiment.errors import InputError

from .step_time import RINGS, Fabric, Ring

# Bounds far above real machines, so that no product or quotient overflows.
Count = Annotated[int, Bound(min=1, max=1e15)]
Bytes = Annotated[float, Bound(min=1, max=1e18)]  # of memory, or per second
Speed = Annotated[float, Bound(min=1e6, max=1e24)]  # operations per second
Dollars = Annotated[float, Bound(min=1e-9, max=1e9)]
Seconds = Annotated[float, Bound(min=0, max=1e9)]
_NETWORK = (
    'a section [network] with a name, such as "InfiniBand", and bytes_per_second, what a node '
    "sends, such as 50e9 for 400 Gb/s"
)


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """How fast products are for one size of model."""

    units: Count
    bits: Literal[16, 32] = 16
    """16: products in fp16 or bf16. 32: in fp32."""
    operations_per_second: Speed

    def __post_init__(self) -> None:
        check_bounds(self, "nodes.rates.")


@dataclass(frozen=True, kw_only=True)
class MessageConfig:
    """How fast messages of one size travel."""

    bytes: Bytes
    bytes_per_second: Bytes

    def __post_init__(self) -> None:
        check_bounds(self, "network.messages.")


def _interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return a value between measured ones, linear in logarithms; beyond them, the nearest."""
    logarithms = np.log(np.array(sorted(points)))
    return float(np.exp(np.interp(math.log(at), *logarithms.T)))


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Nodes of one kind."""

    device: str
    """Name of the GPUs."""
    count: Count = 1
    gpus: Annotated[int, Bound(min=1, max=1000)]
    """Number of GPUs in a node."""
    memory_bytes: Bytes
    """Memory of one GPU."""
    operations_per_second: Speed
    """Multiplications and additions that a GPU sustains in training, where `rates` say nothing."""
    rates: tuple[RateConfig, ...] = ()
    """The same, as measured for some sizes. In between they are interpolated."""
    launch_seconds: Seconds = 0.0
    """Time from one kernel of a window to the next: a byte needs several, one after the other."""
    window_seconds: Seconds = 0.0
    """Time that every window costs besides its recurrence, such as the update of the weights."""
    link_bytes_per_second: Bytes
    """Bandwidth of an all-reduce between the GPUs of a node."""
    memory_bytes_per_second: Bytes | None = None
    """Speed at which a GPU reads its memory. Default: no limit."""
    dollars_per_gpu_hour: Dollars | None = None
    """Default: no price."""

    def __post_init__(self) -> None:
        check_bounds(self, "nodes.")

    @property
    def total_gpus(self) -> int:
        """GPUs of all its nodes."""
        return self.count * self.gpus

    def rate(self, units: int, precision: str) -> float:
        """Return the operations per second of a model's products."""
        bits = 32 if precision == "fp32" else 16
        points = [(r.units, r.operations_per_second) for r in self.rates if r.bits == bits]
        return _interpolated(points, units) if points else self.operations_per_second


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What connects the nodes."""

    name: str
    bytes_per_second: Bytes
    """Bandwidth that a node sustains in each direction, where `messages` say nothing."""
    messages: tuple[MessageConfig, ...] = ()
    """The same, as observed for gradients of some sizes. In between they are interpolated."""
    latency_seconds: Seconds = 0.0
    """Time added to an all-reduce with every doubling of the nodes."""
    ring: Ring = "gpus"
    """gpus: one ring through all GPUs. nodes: first within each node, then between nodes."""

    def __post_init__(self) -> None:
        if self.ring not in RINGS:
            raise InputError(f"network.ring is {self.ring!r}; known: {', '.join(RINGS)}")
        check_bounds(self, "network.")

    def rate(self, size: float) -> float:
        """Return the bandwidth for so many bytes of gradients."""
        points = [(message.bytes, message.bytes_per_second) for message in self.messages]
        return _interpolated(points, size) if points else self.bytes_per_second


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """Nodes, in the order in which a job uses them, and the network between them."""

    name: str
    nodes: tuple[NodeConfig, ...]
    network: NetworkConfig | None = None
    """Needed for more than one node."""
    overhead_seconds: Seconds = 0.0
    """Time that every window costs on several GPUs, however much they send."""
    jitter: Annotated[float, Bound(min=0, max=1000)] = 0.0
    """Relative standard deviation of a GPU's computing from window to window."""
    checkpoint_bytes_per_second: Bytes = 1e9
    """Speed at which rank 0 writes checkpoints."""

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InputError("a cluster needs at least one [[nodes]]")
        if self.network is None and sum(node.count for node in self.nodes) > 1:
            raise InputError(f"a cluster of several nodes needs a [network]: add {_NETWORK}")
        check_bounds(self)

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.total_gpus for node in self.nodes)

    def first_gpus(self, gpus: int) -> list["NodePool"]:
        """Return the first `gpus` GPUs by kind; beyond the last node, more nodes of its kind."""
        if gpus < 1:
            raise InputError(f"{gpus} GPUs; give at least 1")
        pools, left = [], gpus
        for node in self.nodes:
            is_last = node is self.nodes[-1] and self.network is not None
            count = left if is_last else min(left, node.total_gpus)
            if count:
                pools.append(NodePool(node, count))
            left -= count
        if left:
            raise InputError(
                f"{gpus} GPUs: {self.name} has {self.total_gpus} and no network; for more, add to "
                f"its file {_NETWORK}"
            )
        return pools

    def fabric(self, pools: list["NodePool"], size: float) -> Fabric:
        """Return the links and network between these pools, each as fast as its slowest part.

        size: bytes of the gradients.
        """
        network = self.network
        return Fabric(
            gpus_per_node=max(min(pool.gpus, pool.node.gpus) for pool in pools),
            count=sum(pool.nodes for pool in pools),
            link_bytes_per_second=min(pool.node.link_bytes_per_second for pool in pools),
            network_bytes_per_second=network.rate(size) if network else math.inf,
            latency_seconds=network.latency_seconds if network else 0.0,
            ring=network.ring if network else "gpus",
        )


@dataclass(frozen=True)
class NodePool:
    """GPUs of one kind that a job uses."""

    node: NodeConfig
    gpus: int

    @property
    def nodes(self) -> int:
        """Nodes that the GPUs need; the last one may be partly used."""
        return -(-self.gpus // self.node.gpus)
