"""The points of a sweep, and the settings that all its points share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from mlstm_sentiment.bounds import Bound, PositiveInt
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig, TrainingPrecision
from model.layers.language_model import build_model
from training.parallel.distributed import TrainingDevice
from training.parallel.exchange import ParallelConfig

from .launch import Recipe

EXCHANGES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp16": {"compression": "fp16"},
    "bf16": {"compression": "bf16"},
    "flat": {"flat": True},
    "flat-fp16": {"flat": True, "compression": "fp16"},  # as in 2018
    "adasum": {"combine": "adasum"},
}
WHOLE = ("flat", "flat-fp16", "adasum")  # in one piece after backward, without buckets
ALONE = "none"  # the exchange of a single rank
FP32_BYTES = 4  # of a gradient in memory
FEWEST_BEFORE = 3  # steps: DDP rebuilds its buckets in the first


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all points of a sweep share. The lanes of a rank stay the same: scaling is weak."""

    lanes_per_rank: PositiveInt = 256
    """B, lanes of each rank."""
    window: PositiveInt = 256
    """T, characters of a lane in a window."""
    precision: TrainingPrecision = "auto"
    """Precision of the products, as train.precision."""
    device: TrainingDevice = "auto"
    """auto: a GPU for each rank where there are GPUs (NCCL), else the CPU (gloo)."""
    corpus: Path | None = None
    """A prepared corpus; absent, the embedded one."""
    threads: PositiveInt | None = None
    """CPU threads of a rank; absent, the cores divided by the largest number of ranks."""
    warm_up: Annotated[int, Bound(min=FEWEST_BEFORE)] = 5
    """Steps before those that count, rounded up to whole blocks."""
    blocks: PositiveInt = 5
    """Number of measurements in a launch."""
    steps: PositiveInt = 10
    """Steps of a block."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for a result, which does not publish where the corpus lies."""
        values = {item.name: getattr(self, item.name) for item in fields(Settings)}
        return {**values, "corpus": None if self.corpus is None else self.corpus.name}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One way to train on a number of ranks."""

    world: int
    hidden_size: int
    exchange: str
    bucket_cap_mb: float | None
    """None where there are no buckets."""
    windows_per_step: int

    @classmethod
    def of(
        cls, world: int, hidden_size: int, exchange: str, bucket_cap_mb: float, windows: int
    ) -> "Point":
        """Return a point, with only the values that affect it; InputError for bad values."""
        ParallelConfig(bucket_cap_mb=bucket_cap_mb, windows_per_step=windows)
        ModelConfig(hidden_size=hidden_size)
        if world < 1 or exchange not in EXCHANGES:
            names = ", ".join(EXCHANGES)
            raise InputError(f"{exchange!r} on {world} ranks: at least 1 rank, and one of {names}")
        exchange = exchange if world > 1 else ALONE
        return cls(
            world=world,
            hidden_size=hidden_size,
            exchange=exchange,
            bucket_cap_mb=None if exchange in (ALONE, *WHOLE) else bucket_cap_mb,
            windows_per_step=windows,
        )

    @property
    def name(self) -> str:
        """The name of its file."""
        bucket = "" if self.bucket_cap_mb is None else f"_b{self.bucket_cap_mb:g}"
        how = f"{self.exchange}{bucket}_k{self.windows_per_step}"
        return f"w{self.world}_h{self.hidden_size}_{how}"

    @property
    def pieces(self) -> int:
        """The number of pieces in which its gradients travel."""
        if self.bucket_cap_mb is None:
            return 1
        leaves = (
            build_model(ModelConfig(hidden_size=self.hidden_size), seed=0).per_gate_parameters().all
        )
        sizes = (FP32_BYTES * leaf.numel() for leaf in reversed(leaves))
        return bucket_count(sizes, self.bucket_cap_mb * 2**20)

    def recipe(self, settings: Settings) -> Recipe:
        """Return the run that measures this point; its last blocks count."""
        warm_up = -(-settings.warm_up // settings.steps)
        steps = (warm_up + settings.blocks) * settings.steps
        keys = {
            "model.hidden_size": self.hidden_size,
            "data.lanes": settings.lanes_per_rank * self.world,
            "data.window": settings.window,
            "optim.clip_norm": 1.0,
            "train.precision": settings.precision,
            "train.device": settings.device,
            "parallel.windows_per_step": self.windows_per_step,
            **{f"parallel.{key}": value for key, value in EXCHANGES.get(self.exchange, {}).items()},
            "log.every_steps": settings.steps,
            "evaluate.every_steps": steps,
        }
        if self.bucket_cap_mb is not None:
            keys["parallel.bucket_cap_mb"] = self.bucket_cap_mb
        windows = self.windows_per_step * settings.lanes_per_rank * self.world
        return Recipe(self.name, steps * windows * settings.window, keys)


def bucket_count(sizes: Iterable[int], cap: float) -> int:
    """Return how many buckets DDP makes of gradients of these bytes, in the order they are ready.

    A bucket is full as soon as it reaches the cap, also in bytes (Li et al. 2020).
    """
    count, filling = 0, 0
    for size in sizes:
        filling += size
        if filling >= cap:
            count, filling = count + 1, 0
    return count + (filling > 0)


def design(
    worlds: Sequence[int],
    sizes: Sequence[int],
    exchanges: Sequence[str],
    buckets: Sequence[float],
    windows: Sequence[int],
    *,
    all_combinations: bool = False,
) -> list[Point]:
    """Return the points of a sweep, each once.

    Every number of ranks goes with every number of units. The first exchange, bucket and number of
    windows form the base, in which one value at a time is changed, unless all combinations are
    asked for.
    """
    if not (worlds and sizes and exchanges and buckets and windows):
        raise InputError("a sweep needs at least one value of everything")
    ways = list(product(exchanges, buckets, windows))
    if not all_combinations:
        ways = list(_one_at_a_time(exchanges, buckets, windows))
    points = (Point.of(w, h, *way) for h in sizes for way in ways for w in worlds)
    return list(dict.fromkeys(points))


def _one_at_a_time(*axes: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    first = tuple(axis[0] for axis in axes)
    for number, axis in enumerate(axes):
        for value in axis:
            yield (*first[:number], value, *first[number + 1 :])
