"""Clusters, described in TOML files: nodes and the network between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from mlstm_sentiment.bounds import Bound, Closed, check_bounds
from mlstm_sentiment.errors import InputError
from training.utilization import peak_of

from .step_time import Fabric

# Bounds far above real machines, so that no product or quotient overflows.
Count = Annotated[int, Bound(min=1, max=1e15)]
Bytes = Annotated[float, Bound(min=1, max=1e18)]  # of memory, or per second
Speed = Annotated[float, Bound(min=1e6, max=1e24)]  # operations per second
_Dollars = Annotated[float, Bound(min=1e-9, max=1e9)]
Seconds = Annotated[float, Bound(min=0, max=1e9)]
_OF_SHEET = 0.0  # until the data sheet is read
_NEEDED = ("memory_bytes", "operations_per_second", "link_bytes_per_second")
# Of a GPU that nobody measured: the part of its peak that products reach, and the seconds of a
# kernel and of a window, as measured on an H200 (configs/clusters/h200.toml).
_SUSTAINED, _LAUNCH_SECONDS, _WINDOW_SECONDS = 0.58, 4.07e-6, 1.1e-3
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
    forward: Speed | None = None
    """The same for a forward pass alone. Default: as in training."""

    def __post_init__(self) -> None:
        check_bounds(self, "nodes.rates.")


@dataclass(frozen=True, kw_only=True)
class MessageConfig:
    """How fast messages of one size travel."""

    bytes: Bytes
    bytes_per_second: Bytes

    def __post_init__(self) -> None:
        check_bounds(self, "messages.")


def _rate_of(messages: Sequence[MessageConfig], size: float, otherwise: float) -> float:
    points = [(message.bytes, message.bytes_per_second) for message in messages]
    return _interpolated(points, size) if points else otherwise


def _interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return a value between measured ones, linear in logarithms; beyond them, the nearest."""
    logarithms = np.log(np.array(sorted(points)))
    return float(np.exp(np.interp(math.log(at), *logarithms.T)))


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Nodes of one kind.

    If the name is of a GPU whose data sheet is known, all but the number of GPUs may be left out.
    """

    device: str
    """Name of the GPUs, such as H100 or NVIDIA H100 PCIe."""
    count: Count = 1
    gpus: Annotated[int, Bound(min=1, max=1000)]
    """Number of GPUs in a node."""
    memory_bytes: Bytes = _OF_SHEET
    """Memory of one GPU."""
    operations_per_second: Speed = _OF_SHEET
    """Multiplications and additions that a GPU sustains in training, where `rates` say nothing."""
    rates: tuple[RateConfig, ...] = ()
    """The same, as measured for some sizes. In between they are interpolated."""
    launch_seconds: Seconds = 0.0
    """Time from one kernel of a window to the next: a byte needs several, one after the other."""
    window_seconds: Seconds = 0.0
    """Time that every window costs besides its products and the update of the weights."""
    link_bytes_per_second: Bytes = _OF_SHEET
    """Bandwidth of an all-reduce between the GPUs of a node, where `link_messages` say nothing."""
    link_messages: tuple[MessageConfig, ...] = ()
    """The same, as measured for gradients of some sizes. In between they are interpolated."""
    memory_bytes_per_second: Bytes | None = None
    """Speed at which a GPU reads its memory. Default, without a data sheet: no limit."""
    dollars_per_gpu_hour: _Dollars | None = None
    """Default: no price."""

    def __post_init__(self) -> None:
        for name, value in self._sheet().items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if missing := [name for name in _NEEDED if not getattr(self, name)]:
            raise InputError(
                f"nodes.{missing[0]} is missing; no data sheet of {self.device!r} is known"
            )
        check_bounds(self, "nodes.")

    def _sheet(self) -> dict[str, float]:
        """Return what the data sheet says; nothing if there is none."""
        if (sheet := peak_of(self.device)) is None:
            return {}
        operations = _SUSTAINED * sheet.operations
        of_kernels = {"launch_seconds": _LAUNCH_SECONDS, "window_seconds": _WINDOW_SECONDS}
        is_measured = self.operations_per_second not in (_OF_SHEET, operations)
        return {
            "memory_bytes": sheet.memory_bytes,
            "link_bytes_per_second": sheet.link_bytes,
            "memory_bytes_per_second": sheet.bytes,
            **({} if is_measured else of_kernels),
            "operations_per_second": operations,
        }

    @property
    def of_sheet(self) -> list[str]:
        """The numbers that are its data sheet's, or assumed with it."""
        return [name for name, value in self._sheet().items() if getattr(self, name) == value]

    @property
    def total_gpus(self) -> int:
        return self.count * self.gpus

    def rate(self, units: int, precision: str, *, forward: bool = False) -> float:
        """Return the operations per second of a model's products; forward: of a forward pass."""
        bits = 32 if precision == "fp32" else 16
        points = [
            (rate.units, (rate.forward if forward else None) or rate.operations_per_second)
            for rate in self.rates
            if rate.bits == bits
        ]
        return _interpolated(points, units) if points else self.operations_per_second

    def link_rate(self, size: float) -> float:
        return _rate_of(self.link_messages, size, self.link_bytes_per_second)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What connects the nodes."""

    CLOSED: ClassVar = {
        "latency_seconds": Closed("d6012824", 0.0),
        "ring": Closed("d6012824", "gpus"),
    }

    name: str
    bytes_per_second: Bytes
    """Bandwidth that a node sustains in each direction, where `messages` say nothing."""
    messages: tuple[MessageConfig, ...] = ()
    """The same, as observed for gradients of some sizes. In between they are interpolated."""

    def __post_init__(self) -> None:
        check_bounds(self, "network.")

    def rate(self, size: float) -> float:
        return _rate_of(self.messages, size, self.bytes_per_second)


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """Nodes, in the order in which a job uses them, and the network between them."""

    CLOSED: ClassVar = {"jitter": Closed("d6012824", 0.0)}

    name: str
    nodes: tuple[NodeConfig, ...]
    network: NetworkConfig | None = None
    """Needed for more than one node."""
    overhead_seconds: Seconds = 0.0
    """Time that every window costs on several GPUs, however much they send."""
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
            link_bytes_per_second=min(pool.node.link_rate(size) for pool in pools),
            network_bytes_per_second=network.rate(size) if network else math.inf,
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
