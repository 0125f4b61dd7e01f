"""Compare threads with processes: replicas of a model in one interpreter or in several.

python -m experiments.scaling.interpreter --output experiments/scaling/results/interpreter.json \\
    --figure experiments/scaling/interpreter.png
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from model.errors import InputError
from model.files.storage import write_json
from model.recurrence import Backend
from scaling.benchmark.timing import interleave

from .locking.figure import PUBLISHED, draw
from .locking.replicas import Work, hosts, train_together

How = Literal["threads", "processes"]
HOWS: tuple[How, ...] = ("threads", "processes")
BACKENDS: tuple[Backend, ...] = ("reference", "fused")
WORDS = {"reference": "loop over bytes", "fused": "compiled recurrence"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train several replicas at once, as threads and as processes."""

    output: Path
    """JSON file for the result."""
    figure: Path | None = None
    """PNG to draw; absent, it has the name of the JSON file."""
    replicas: tuple[int, ...] = (2, 4)
    """Numbers of replicas at once, beside one alone; they may exceed the cores."""
    sizes: tuple[int, ...] = (64, 512)
    """Units of the model."""
    lanes: int = 32
    """Lanes of a replica, as many as those of a GPU in the published comparison."""
    window: int = 64
    """Bytes of a lane and step."""
    seconds: float = 2.0
    """Approximate training time of a single replica in a round."""
    rounds: int = 5
    """Rounds; each runs every case once."""

    def __post_init__(self) -> None:
        for name in ("replicas", "sizes"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise InputError(f"--{name} {getattr(self, name)}: at least one, and at least 1")
        for name in ("lanes", "window", "rounds", "seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"--{name} {getattr(self, name)}: above zero")


@dataclass(frozen=True)
class Case:
    """A number of replicas of one kind that train at once."""

    work: Work
    how: How
    replicas: int

    @property
    def name(self) -> str:
        """Its unique name."""
        alone = "alone" if self.replicas == 1 else f"{self.replicas} {self.how}"
        return f"{self.work.backend} {self.work.hidden_size} {alone}"

    def train(self, connections: Sequence[Connection]) -> float:
        """Train all replicas; return the seconds of processor time."""
        if self.how == "threads":
            return train_together(connections[:1], self.work, self.replicas)
        return train_together(connections[: self.replicas], self.work, 1)


def main() -> None:
    options = command.parse(Options, __doc__)
    figure = options.figure or options.output.with_suffix(".png")
    command.prepare_output(options.output, figure)
    study = measure(options)
    write_json(options.output, study)
    draw(figure, study)
    print(tables(study))


def measure(options: Options) -> dict[str, Any]:
    """Return the seconds of all cases by rounds, and the speeds."""
    load, origin = os.getloadavg(), describe_origin()
    with hosts(max(options.replicas)) as connections:
        kinds = [
            Work(backend, size, options.lanes, options.window)
            for backend in BACKENDS
            for size in options.sizes
        ]
        works = [calibrated(kind, connections, options.seconds) for kind in kinds]
        cases = [case for work in works for case in cases_of(work, options.replicas)]
        busy: dict[str, list[float]] = {case.name: [] for case in cases}
        seconds = interleave(
            {case.name: timed(case, connections, busy) for case in cases}, options.rounds
        )
    return {
        "cores": origin["hardware"]["cores"] or os.cpu_count(),
        "cases": [described(case, seconds, busy[case.name][1:]) for case in cases],
        "published": PUBLISHED,
        "load_before": load,
        "settings": {key: str(value) for key, value in vars(options).items()},
        "origin": origin,
    }


def calibrated(work: Work, connections: Sequence[Connection], seconds: float) -> Work:
    """Return the work with as many steps as one replica alone takes in about so many seconds."""
    alone = Case(work, "threads", 1)
    alone.train(connections)  # the first step compiles and allocates
    began = time.perf_counter()
    replace(alone, work=replace(work, steps=3)).train(connections)
    steps = round(seconds * 3 / (time.perf_counter() - began))
    return replace(work, steps=max(1, steps))


def cases_of(work: Work, replicas: Sequence[int]) -> list[Case]:
    """Return one replica alone, and more of them both ways."""
    more = [Case(work, how, count) for count in replicas for how in HOWS if count > 1]
    return [Case(work, "threads", 1), *more]


def timed(
    case: Case, connections: Sequence[Connection], busy: Mapping[str, list[float]]
) -> Callable[[], None]:
    """Return the work of a case; each call appends the number of busy cores."""

    def work() -> None:
        began = time.perf_counter()
        processor = case.train(connections)
        busy[case.name].append(processor / (time.perf_counter() - began))

    return work


def described(
    case: Case, seconds: Mapping[str, Sequence[float]], busy: Sequence[float]
) -> dict[str, Any]:
    """Return the result of a case; its speed is that of all replicas over that of one."""
    own, alone = seconds[case.name], seconds[replace(case, replicas=1).name]
    ratios = [case.replicas * one / all_ for one, all_ in zip(alone, own, strict=True)]
    return {
        "backend": case.work.backend,
        "hidden_size": case.work.hidden_size,
        "how": case.how if case.replicas > 1 else "alone",
        "replicas": case.replicas,
        "steps": case.work.steps,
        "seconds": list(own),
        "characters_per_second": case.replicas * case.work.characters / statistics.median(own),
        "speedup": statistics.median(ratios),
        "speedup_range": [min(ratios), max(ratios)],
        "cores_busy": statistics.median(busy),
    }


def tables(study: Mapping[str, Any]) -> str:
    """Return our speeds and the published ones."""
    counts = sorted({case["replicas"] for case in study["cases"]} - {1})
    heads = [f"{n} {w}" for n in counts for w in HOWS]
    ours = markdown(
        ["times the speed of one (all rounds; cores busy)", "one: characters/s", *heads],
        [row(study["cases"], key, counts) for key in keys_of(study["cases"])],
    )
    beyond = [str(count) for count in counts if count > study["cores"]]
    note = f"{study['cores']} cores" + (
        f": {', '.join(beyond)} replicas share them." if beyond else "."
    )
    published = markdown(
        ["published, thousand characters/s", "1 GPU", "4", "8"],
        [[way, *(points.get(n, "") for n in ("1", "4", "8"))] for way, points in PUBLISHED.items()],
    )
    return "\n\n".join([ours, note, published])


def keys_of(cases: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the kinds of replicas in the order of the cases."""
    return list(dict.fromkeys((case["backend"], case["hidden_size"]) for case in cases))


def row(
    cases: Sequence[Mapping[str, Any]], key: tuple[str, int], counts: Sequence[int]
) -> list[str]:
    """Return the row of one kind of replica."""
    own = [case for case in cases if (case["backend"], case["hidden_size"]) == key]
    found = {(case["replicas"], case["how"]): case for case in own}
    alone = found[1, "alone"]
    cells = [speed_of(found[n, how]) for n in counts for how in HOWS]
    return [f"{WORDS[key[0]]}, {key[1]} units", f"{alone['characters_per_second']:,.0f}", *cells]


def speed_of(case: Mapping[str, Any]) -> str:
    """Return the speed of a case with its range over rounds, and the busy cores."""
    low, high = case["speedup_range"]
    return f"{case['speedup']:.2f} ({low:.2f} to {high:.2f}; {case['cores_busy']:.1f})"


if __name__ == "__main__":
    command.run(main)
