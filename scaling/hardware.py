"""Clusters, described in TOML files: nodes and the network between them."""

import math
from dataclasses import dataclass
from typing import Annotated

from model.bounds import Bound, check_bounds
from model.errors import InputError

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
    """Multiplications and additions that a GPU sustains in training."""
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


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What connects the nodes."""

    name: str
    bytes_per_second: Bytes
    """Bandwidth that a node sustains in each direction."""
    latency_seconds: Seconds = 0.0
    """Time added to an all-reduce with every doubling of the nodes."""
    ring: Ring = "gpus"
    """gpus: one ring through all GPUs. nodes: first within each node, then between nodes."""

    def __post_init__(self) -> None:
        if self.ring not in RINGS:
            raise InputError(f"network.ring is {self.ring!r}; known: {', '.join(RINGS)}")
        check_bounds(self, "network.")


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

    def fabric(self, pools: list["NodePool"]) -> Fabric:
        """Return the links and network between these pools, each as fast as its slowest part."""
        network = self.network
        return Fabric(
            gpus_per_node=max(min(pool.gpus, pool.node.gpus) for pool in pools),
            count=sum(pool.nodes for pool in pools),
            link_bytes_per_second=min(pool.node.link_bytes_per_second for pool in pools),
            network_bytes_per_second=network.bytes_per_second if network else math.inf,
            latency_seconds=network.latency_seconds if network else 0.0,
            ring=network.ring if network else "gpus",
        )


@dataclass(frozen=True)
class NodePool:
    """GPUs of one kind that a job uses."""

    node: NodeConfig
    gpus: int

    @property
    def operations_per_second(self) -> float:
        """Operations per second of all its GPUs together."""
        return self.node.operations_per_second * self.gpus

    @property
    def nodes(self) -> int:
        """Nodes that the GPUs need; the last one may be partly used."""
        return -(-self.gpus // self.node.gpus)
