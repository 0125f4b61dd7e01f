"""A training job on a cluster: the seconds of a step, and the answers that follow from them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, repeat

from model.bounds import PositiveFloat, PositiveInt, check_bounds
from model.language_model import ModelConfig

from .hardware import ClusterConfig, NodePool
from .memory import MemoryModel
from .reliability import Interruptions, job_hours_between
from .step_time import StepTime, Synchronisation, step_time
from .workload import Workload

MOST_GPUS = 4096  # where the search for the end of efficiency stops
MOST_TOKENS = 1e12  # per GPU and step
HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, on how many GPUs, and how they share the work."""

    model: ModelConfig
    characters: PositiveFloat
    characters_per_token: PositiveFloat = 1.0
    gpus: PositiveInt
    lanes_per_gpu: PositiveInt = 256
    window: PositiveInt = 256
    precision: str = "fp16"
    lane_groups: PositiveInt = 1
    by_speed: bool = True
    """Whether faster GPUs get more lanes; else all the same."""
    how: Synchronisation = field(default_factory=Synchronisation)

    def __post_init__(self) -> None:
        check_bounds(self)

    @property
    def tokens_per_gpu(self) -> float:
        """Tokens of a window, on average over GPUs."""
        return float(self.lanes_per_gpu * self.window)


@dataclass(frozen=True)
class Timing:
    """A window on some GPUs."""

    gpus: int
    tokens: float  # of all GPUs
    step: StepTime
    ideal_seconds: float  # if every GPU computed all the time

    @property
    def efficiency(self) -> float:
        """The fraction of the speed of all GPUs that is used."""
        return self.ideal_seconds / self.step.seconds


@dataclass(frozen=True)
class Offer:
    """A whole job at one price, including interruptions and checkpoints."""

    hours: float
    dollars: float | None  # None if the cluster names no price
    interruptions: Interruptions
    expected_interruptions: float


class Plan:
    """Answers about a job on a cluster."""

    def __init__(self, cluster: ClusterConfig, job: Job):
        self.cluster, self.job = cluster, job
        self.workload = Workload.of(job.model)
        self.pools = cluster.first_gpus(job.gpus)
        self.timing = self.timing_of(job.gpus, job.tokens_per_gpu)

    def timing_of(self, gpus: int, tokens_per_gpu: float) -> Timing:
        """Return a window's seconds on the first `gpus` GPUs."""
        pools = self.cluster.first_gpus(gpus)
        tokens, rates = tokens_per_gpu * gpus, [p.node.operations_per_second for p in pools]
        together = sum(rate * pool.gpus for rate, pool in zip(rates, pools, strict=True))
        ideal = self.workload.computing_seconds(tokens, together)
        even = self.workload.computing_seconds(tokens_per_gpu, min(rates))
        step = step_time(
            ideal if self.job.by_speed else even,
            self.workload.parameters,
            gpus,
            self.cluster.fabric(pools),
            self.job.how,
            overhead=self.cluster.overhead_seconds,
            jitter=self.cluster.jitter,
        )
        return Timing(gpus, tokens, step, ideal)

    @property
    def seconds(self) -> float:
        """Seconds of the whole job without interruptions."""
        return self.job.characters / self.characters_per_second

    @property
    def characters_per_second(self) -> float:
        """Of all GPUs together."""
        return self.timing.tokens * self.job.characters_per_token / self.timing.step.seconds

    @property
    def steps(self) -> float:
        """Updates of the weights."""
        tokens = self.job.characters / self.job.characters_per_token
        return tokens / (self.timing.tokens * self.job.how.windows)

    def lanes_of(self, pool: NodePool) -> int:
        """Return the lanes of each GPU of a pool."""
        return round(self.job.lanes_per_gpu * self.job.gpus * self._fraction(pool))

    def _fraction(self, pool: NodePool) -> float:
        """Return the fraction of all lanes that a GPU of a pool gets."""
        if not self.job.by_speed:
            return 1 / self.job.gpus
        together = sum(p.node.operations_per_second * p.gpus for p in self.pools)
        return pool.node.operations_per_second / together

    @property
    def memory(self) -> MemoryModel:
        """The memory of a GPU."""
        return MemoryModel(
            model=self.job.model,
            window=self.job.window,
            precision=self.job.precision,
            lane_groups=self.job.lane_groups,
            gradient_bytes=self.job.how.bytes_per_parameter if self.job.gpus > 1 else 0.0,
        )

    def largest_lanes(self, headroom: float) -> int:
        """Return the most lanes that fit into all GPUs, divided as the job divides them."""
        fitting = (
            self.memory.largest_lanes(pool.node.memory_bytes, headroom) / self._fraction(pool)
            for pool in self.pools
        )
        return int(min(fitting))

    def most_gpus(self, efficiency: float, *, whole_batch: bool) -> int | None:
        """Return the number of GPUs beyond which efficiency is lower; None if none was found.

        whole_batch: the total number of lanes stays the same, not that of each GPU; more GPUs than
        lanes do not count. Operations per second stay the same too, which is optimistic for few
        lanes. A single GPU always counts.
        """
        counts, lanes = self._counts(), self.job.lanes_per_gpu * self.job.gpus
        possible = [p for p in counts if p <= lanes or not whole_batch]
        enough = [p for p in possible if self._efficiency_of(p, whole_batch) >= efficiency]
        most = max(enough, default=1)
        return None if most == counts[-1] else most

    def _efficiency_of(self, gpus: int, whole_batch: bool) -> float:
        part = self.job.gpus / gpus if whole_batch else 1
        return self.timing_of(gpus, self.job.tokens_per_gpu * part).efficiency

    @property
    def most_looked_at(self) -> int:
        """The number of GPUs at which a search stops; without a network, that of the cluster."""
        return self._counts()[-1]

    def _counts(self) -> list[int]:
        """Return the numbers of GPUs to try: every number within a node, then whole nodes."""
        nodes = self.cluster.nodes
        most = MOST_GPUS if self.cluster.extensible else min(self.cluster.total_gpus, MOST_GPUS)
        sizes = chain((n.gpus for n in nodes for _ in range(n.count)), repeat(nodes[-1].gpus))
        counts = list(range(1, min(next(sizes), most) + 1))
        for size in sizes:
            if counts[-1] + size > most:
                break
            counts.append(counts[-1] + size)
        return counts

    def tokens_for(self, efficiency: float) -> float | None:
        """Return the tokens per GPU and window that an efficiency needs; None if none suffice."""
        return smallest(
            lambda tokens: self.timing_of(self.job.gpus, tokens).efficiency >= efficiency,
            MOST_TOKENS,
        )

    def offer(self, *, spot: bool, node_hours: float | None = None) -> Offer | None:
        """Return what the job takes on demand or at the spot price; None if there is no spot price.

        node_hours: hours between interruptions of a node, overriding the cluster's.
        """
        kinds = [pool.node for pool in self.pools]
        prices = [n.spot_dollars_per_gpu_hour if spot else n.dollars_per_gpu_hour for n in kinds]
        if spot and None in prices:
            return None
        reliability = self.cluster.reliability
        hours = node_hours or (
            reliability.spot_hours_between_preemptions
            if spot
            else reliability.hours_between_failures
        )
        nodes = sum(pool.nodes for pool in self.pools)
        interruptions = Interruptions(
            between=job_hours_between(hours, nodes) * HOUR,
            checkpoint=self.checkpoint_bytes / reliability.checkpoint_bytes_per_second,
            restart=reliability.restart_seconds,
        )
        seconds = self.seconds * interruptions.slowdown
        paid = [
            price * pool.gpus * seconds / HOUR
            for price, pool in zip(prices, self.pools, strict=True)
            if price is not None
        ]
        dollars = sum(paid) if len(paid) == len(prices) else None
        return Offer(seconds / HOUR, dollars, interruptions, seconds / interruptions.between)

    @property
    def checkpoint_bytes(self) -> float:
        """Weights and Adam's moments in fp32, and h and c of every lane."""
        lanes = sum(self.lanes_of(pool) * pool.gpus for pool in self.pools)
        state = lanes * self.job.model.hidden_size * (4 if self.job.precision == "fp32" else 2)
        return 12.0 * self.workload.parameters + state + 4.0 * lanes * self.job.model.hidden_size


def smallest(holds: Callable[[float], bool], most: float) -> float | None:
    """Return the smallest number from 1 to `most` from which on `holds` is true, or None."""
    if not holds(most):
        return None
    if holds(1.0):
        return 1.0
    low, high = 1.0, most
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
