"""The points of each part of the study, and the predictions of the closed forms."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.emulation.rank import WARM_UP
from experiments.exchange.readiness import ONE_BY_ONE
from model.errors import InputError
from scaling.step_time import ring_seconds

from .scale import Scale, correction, gpus_of
from .schedule import (
    BACKWARD,
    FP32_BYTES,
    MEGABYTE,
    Leaf,
    exposed_seconds,
    feed_forward,
    in_buckets,
    recorded,
)

NODES = (2, 4, 8, 16)
NODES_OF_BUCKETS = 4
FP16: dict[str, Any] = {"compression": "fp16"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {  # profile of the gradients, and their exchange
    "2018": ("per byte", {"flat": True, **FP16}),
    "today": (ONE_BY_ONE, FP16),
}
DEFAULT_CAP = 25.0  # MB, DDP's own and training/parallel/exchange.py's
CAPS = (0.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0)
FEED_FORWARD, LAYERS = "feed-forward", 160  # as many tensors as ResNet-50 has
WINDOWS = (1, 2, 4, 8)
SIZES = tuple(10 ** (number / 2) for number in range(10, 18))  # bytes: 100 kB to 300 MB
PARAMETERS = 60e6  # all-reduced in so many operations, as in Li et al. 2020
OPERATIONS = (1, 3, 10, 30, 100, 300, 600)
NODES_OF_OPERATIONS = 8  # at most: with more, small operations measure this machine, slowly


@dataclass(frozen=True)
class Point:
    """One case to measure, with the facts that tables need."""

    key: str
    nodes: int
    case: dict[str, Any]  # the request to the ranks
    computing: float  # seconds of computing
    predicted: float  # seconds of the whole by the closed forms, nothing fitted
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def expected_seconds(self) -> float:
        """The seconds of one measurement; warm-up steps have one window."""
        warm_up = self.predicted - self.computing * (1 - 1 / self.case.get("windows", 1))
        return self.predicted * self.case["turns"] + WARM_UP * warm_up


@dataclass(frozen=True)
class Study:
    """The points of each part of the study."""

    scale: Scale
    profiles: dict[str, Any]  # experiments/exchange/results/readiness.json
    most_nodes: int = NODES[-1]
    least_nodes: int = NODES[0]

    def parts(self, names: Iterable[str]) -> list[list[Point]]:
        """Return the points of these parts, each once, in groups that are measured in turns."""
        known: dict[str, Callable[[], list[list[Point]]]] = {
            "ethernet": self.ethernet,
            "today": self.today,
            "allreduce": self.all_reduce,
            "buckets": self.buckets,
            "skipped": self.skipped,
        }
        groups, seen = [], set()
        for name in names:
            if name not in known:
                raise InputError(f"--only {name}: known are {', '.join(known)}")
            for group in known[name]():
                groups.append([point for point in group if point.key not in seen])
                seen |= {point.key for point in group}
        return [group for group in groups if group]

    @property
    def nodes(self) -> list[int]:
        """The numbers of nodes to measure."""
        return [nodes for nodes in NODES if self.least_nodes <= nodes <= self.most_nodes]

    def ethernet(self) -> list[list[Point]]:
        """Return the points of the published curve, with the exchange of 2018."""
        return [[self.training("2018", nodes)] for nodes in self.nodes]

    def today(self) -> list[list[Point]]:
        """Return the points of today's exchange, in every window and in every fourth."""
        return [[self.training("today", n, windows=k) for k in (1, 4)] for n in self.nodes]

    def skipped(self) -> list[list[Point]]:
        """Return the points of both exchanges in every k-th window."""
        return [
            [self.training(way, nodes, windows=windows) for windows in WINDOWS]
            for way in WAYS
            for nodes in self.nodes
        ]

    def buckets(self) -> list[list[Point]]:
        """Return the points of all bucket sizes, for three profiles of gradients."""
        nodes = min(NODES_OF_BUCKETS, self.most_nodes)
        return [
            [self.sweep(profile, cap, nodes) for cap in CAPS]
            for profile in (FEED_FORWARD, "together", ONE_BY_ONE)
        ]

    def all_reduce(self) -> list[list[Point]]:
        """Return all-reduces of many sizes, and of one size in several operations."""
        groups = []
        for nodes in self.nodes:
            groups.append([self.reduction(nodes, size / FP32_BYTES, 1) for size in SIZES])
            if nodes <= NODES_OF_OPERATIONS:
                groups.append([self.reduction(nodes, PARAMETERS, count) for count in OPERATIONS])
        return groups

    def training(self, way: str, nodes: int, *, windows: int = 1) -> Point:
        """Return a training step with a way to exchange."""
        profile, parallel = WAYS[way]
        facts = {"kind": "training", "way": way}
        key = f"{way}, {gpus_of(nodes)} GPUs, every {windows}"
        leaves = recorded(self.profiles, profile)
        return self.step(key, nodes, leaves, parallel, windows, DEFAULT_CAP, facts)

    def sweep(self, profile: str, cap: float, nodes: int) -> Point:
        """Return a training step with buckets of a size."""
        facts = {"kind": "buckets", "profile": profile, "cap_mb": cap}
        leaves = recorded(self.profiles, profile if profile != FEED_FORWARD else "together")
        if profile == FEED_FORWARD:
            leaves = feed_forward(sum(leaf.numbers for leaf in leaves), LAYERS)
        key = f"buckets of {cap:g} MB, {profile}, {gpus_of(nodes)} GPUs"
        return self.step(key, nodes, leaves, FP16, 1, cap, facts)

    def step(
        self,
        key: str,
        nodes: int,
        leaves: Sequence[Leaf],
        parallel: dict[str, Any],
        windows: int,
        cap: float,
        facts: dict[str, Any],
    ) -> Point:
        """Return a step of so many windows and one exchange; cap: of a bucket in MB, unscaled."""
        reduction = correction(nodes) / self.scale.factor
        reduced = [Leaf(max(round(leaf.numbers * reduction), 1), leaf.ready) for leaf in leaves]
        cap_mb = max(cap * reduction, 1 / MEGABYTE)
        whole = [Leaf(sum(leaf.numbers for leaf in reduced), 1.0)]
        flat = parallel.get("flat", False)
        pieces = whole if flat else in_buckets(reduced, int(cap_mb * MEGABYTE))
        seconds, bandwidth = self.scale.computing_seconds(), self.scale.payload_bytes_per_second
        exposed = exposed_seconds(pieces, seconds, nodes, bandwidth)
        case = {
            "kind": "step",
            "leaves": [{"shape": [leaf.numbers], "ready": leaf.ready} for leaf in reduced],
            "seconds": seconds,
            "backward": BACKWARD,
            "windows": windows,
            "parallel": {**parallel, "bucket_cap_mb": cap_mb},
            "turns": 7 if windows <= 2 else 5,
        }
        return Point(
            key,
            nodes,
            case,
            computing=windows * seconds,
            predicted=windows * seconds + exposed,
            facts={**facts, "gpus": gpus_of(nodes), "windows": windows, "pieces": len(pieces)},
        )

    def reduction(self, nodes: int, numbers: float, operations: int) -> Point:
        """Return an all-reduce of so many numbers in fp32 between nodes, in equal operations.

        Here a node is one rank and does not stand for eight GPUs.
        """
        each = max(round(numbers / operations / self.scale.factor), 1)
        size, bandwidth = FP32_BYTES * each, self.scale.payload_bytes_per_second
        facts = {
            "kind": "operations" if numbers == PARAMETERS else "all_reduce",
            "operations": operations,
            "numbers_each": numbers / operations,
            "bytes": numbers * FP32_BYTES,
            "nodes": nodes,
        }
        return Point(
            f"{numbers * FP32_BYTES:.3g} bytes in {operations}, {nodes} nodes",
            nodes,
            {"kind": "all_reduce", "numbers": each, "operations": operations, "turns": 7},
            computing=0.0,
            predicted=operations * ring_seconds(size, nodes, bandwidth),
            facts=facts,
        )
