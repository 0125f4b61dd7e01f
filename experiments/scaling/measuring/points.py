"""What is measured: points of a sweep, and the settings that are the same for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal

from model.errors import InputError
from model.language_model import ModelConfig
from training.parallel.distributed import Device
from training.parallel.exchange import ParallelConfig
from training.precision import Precision

Exchange = Literal["fp32", "fp16", "bf16", "powersgd", "flat", "flat-fp16", "adasum"]
EXCHANGES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp16": {"compression": "fp16"},
    "bf16": {"compression": "bf16"},
    "powersgd": {"compression": "powersgd", "powersgd_start": 2},
    "flat": {"flat": True},
    "flat-fp16": {"flat": True, "compression": "fp16"},  # as in 2018
    "adasum": {"combine": "adasum"},
}
WHOLE = ("flat", "flat-fp16", "adasum")  # after backward in one piece, whatever the buckets
ALONE = "none"  # what a single rank exchanges
FEWEST_BEFORE = 3  # steps: DDP lays its buckets anew after the first, PowerSGD begins at the third


@dataclass(frozen=True, kw_only=True)
class Point:
    """One way to train on so many ranks."""

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
        """Return a point without what makes no difference to it; InputError for nonsense."""
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
        """What its file is called."""
        bucket = "" if self.bucket_cap_mb is None else f"_b{self.bucket_cap_mb:g}"
        how = f"{self.exchange}{bucket}_k{self.windows_per_step}"
        return f"w{self.world}_h{self.hidden_size}_{how}"

    @property
    def parallel(self) -> ParallelConfig:
        """How its ranks work together."""
        keys = EXCHANGES.get(self.exchange, {})
        if self.bucket_cap_mb is not None:
            keys = {**keys, "bucket_cap_mb": self.bucket_cap_mb}
        return ParallelConfig(windows_per_step=self.windows_per_step, **keys)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all points of a sweep have in common; the lanes of a rank stay, so scaling is weak."""

    lanes_per_rank: int = 256
    """B, lanes of each rank, whatever their number."""
    window: int = 256
    """T, characters of a lane and window."""
    precision: Precision = "auto"
    """Of the products, as train.precision."""
    device: Device = "auto"
    """auto takes a GPU for each rank where there are some (NCCL), else the CPU (gloo)."""
    corpus: Path | None = None
    """A prepared corpus; absent, characters are drawn at random."""
    threads: int | None = None
    """CPU threads of a rank; absent, its share of the cores. A sweep takes the share of its largest
    number of ranks for all of them."""
    warm_up: int = 5
    """Steps before those that count."""
    blocks: int = 5
    """Times that the clock is read in a launch."""
    steps: int = 10
    """Steps of a block."""
    profiled: int = 3
    """Steps under torch's profiler, after those under the clock."""

    def __post_init__(self) -> None:
        least = {"warm_up": FEWEST_BEFORE}
        for item in fields(Settings):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < least.get(item.name, 1):
                option = item.name.replace("_", "-")
                raise InputError(f"--{option} is {value}; at least {least.get(item.name, 1)}")

    @property
    def settings(self) -> dict[str, Any]:
        """Return them for a result; where a corpus lies is nobody's business."""
        given = {item.name: getattr(self, item.name) for item in fields(Settings)}
        return {**given, "corpus": None if self.corpus is None else self.corpus.name}


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

    Every number of ranks with every number of units; the first exchange, bucket and number of
    windows together, and every other value of these three in place of its first, unless all
    combinations of them are asked for.
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


def arguments_of(point: Point, settings: Settings) -> list[str]:
    """Return the options with which a rank measures a point; its world is the launcher's."""
    options: dict[str, Any] = {item.name: getattr(settings, item.name) for item in fields(Settings)}
    if settings.corpus is not None:
        options["corpus"] = settings.corpus.resolve()
    options |= {name: value for name, value in asdict(point).items() if name != "world"}
    if point.exchange == ALONE:
        del options["exchange"]
    pairs = ((f"--{name.replace('_', '-')}", value) for name, value in options.items())
    return [word for name, value in pairs if value is not None for word in (name, str(value))]
