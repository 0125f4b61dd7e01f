"""The points of a sweep, and the settings that all its points share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from experiments.training_runs import Recipe
from model.errors import InputError
from model.language_model import ModelConfig, build_model
from training.parallel.distributed import Device
from training.parallel.exchange import MEGABYTE, ParallelConfig
from training.precision import Precision

from ..emulation.schedule import Leaf, in_buckets

EXCHANGES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp16": {"compression": "fp16"},
    "bf16": {"compression": "bf16"},
    "powersgd": {"compression": "powersgd", "powersgd_start": 2},
    "flat": {"flat": True},
    "flat-fp16": {"flat": True, "compression": "fp16"},  # as in 2018
    "adasum": {"combine": "adasum"},
}
WHOLE = ("flat", "flat-fp16", "adasum")  # in one piece after backward, without buckets
ALONE = "none"  # the exchange of a single rank
FEWEST_BEFORE = 3  # steps: DDP rebuilds its buckets after the first, PowerSGD begins at the third


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all points of a sweep share. The lanes of a rank stay the same: scaling is weak."""

    lanes_per_rank: int = 256
    """B, lanes of each rank."""
    window: int = 256
    """T, characters of a lane in a window."""
    precision: Precision = "auto"
    """Precision of the products, as train.precision."""
    device: Device = "auto"
    """auto: a GPU for each rank where there are GPUs (NCCL), else the CPU (gloo)."""
    corpus: Path | None = None
    """A prepared corpus; absent, the embedded one."""
    threads: int | None = None
    """CPU threads of a rank; absent, the cores divided by the largest number of ranks."""
    warm_up: int = 5
    """Steps before those that count, rounded up to whole blocks."""
    blocks: int = 5
    """Number of measurements in a launch."""
    steps: int = 10
    """Steps of a block."""

    def __post_init__(self) -> None:
        least = {"warm_up": FEWEST_BEFORE}
        for item in fields(Settings):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < least.get(item.name, 1):
                option = item.name.replace("_", "-")
                raise InputError(f"--{option} is {value}; at least {least.get(item.name, 1)}")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for a result, which does not publish where the corpus lies."""
        given = {item.name: getattr(self, item.name) for item in fields(Settings)}
        return {**given, "corpus": None if self.corpus is None else self.corpus.name}


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
        """Return a point without the values that do not affect it; InputError for bad values."""
        ParallelConfig(bucket_cap_mb=bucket_cap_mb, windows_per_step=windows)
        ModelConfig(hidden_size=hidden_size)
        if world < 1 or exchange not in EXCHANGES:
            known = ", ".join(EXCHANGES)
            raise InputError(f"{exchange!r} on {world} ranks: at least 1 rank, and one of {known}")
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
        leaves = build_model(ModelConfig(hidden_size=self.hidden_size), seed=0).split_leaves()
        ready = [Leaf(leaf.numel(), 1.0) for leaf in reversed(leaves)]
        return len(in_buckets(ready, self.bucket_cap_mb * MEGABYTE))

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
