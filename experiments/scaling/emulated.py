"""The tables of the scale model of a cluster, a closed study.

Its commands name the revision that measured it and that holds the code. A run does not count where
the machine was busy with something else, whatever the run came to.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.tables import markdown, revision, table_of

from .publication import puri
from .publication.explanation import Constants, fit_model, predict

Row = dict[str, Any]
CURVE = "ethernet_4096"
PUBLISHED = dict(zip(puri.GPUS, puri.SCALING[CURVE], strict=True))
LARGEST = 128
BY_TEXT = f"{puri.HOURS_BY_TEXT:g} h an epoch"
PARAMETERS = 60e6  # all-reduced in so many operations, as in Li et al. 2020
PROFILES = {
    "feed-forward": "160 equal layers",
    "together": "mLSTM, all at the end",
    "one by one": "mLSTM, gate by gate (today)",
}
LIMITS = {
    "others": 0.10,  # part of the processors' time that other processes or the host took
    "overshoot": 0.02,  # part by which computing took longer than it should
    "traffic": 0.5,  # rate of a link over its rate without a limit, with all links busy
}


def disturbances(measures: Mapping[str, float]) -> dict[str, float]:
    """Return the measures that are not below their limits."""
    return {name: value for name, value in measures.items() if not value < LIMITS[name]}


@dataclass(frozen=True)
class Results:
    """The points of a record; each is the median of its runs that count."""

    content: dict[str, Any]

    @property
    def rows(self) -> list[Row]:
        """A row for each point that has a run that counts."""
        counted: dict[str, list[Row]] = {}
        for row in self.content["runs"]:
            if not disturbances(row["measures"]):
                counted.setdefault(row["key"], []).append(row)
        return [summary(runs) for runs in counted.values()]

    def of(self, kind: str, **facts: Any) -> list[Row]:
        """Return the points of a kind with these facts."""
        facts["kind"] = kind
        return [row for row in self.rows if facts.items() <= row.items()]

    def training(self, way: str, windows: int) -> dict[int, Row]:
        """Return the steps of a way to exchange, by the number of GPUs."""
        rows = self.of("training", way=way, windows=windows)
        return {row["gpus"]: row for row in sorted(rows, key=lambda row: row["gpus"])}

    def values(self, kind: str, name: str) -> list[Any]:
        """Return the sorted values of a fact among the points of a kind."""
        return sorted({row[name] for row in self.of(kind)})


def summary(runs: list[Row]) -> Row:
    """Return the facts of a point, with the median and range of its runs' seconds."""
    seconds = [row["seconds"] for row in runs]
    facts = {k: v for k, v in runs[-1].items() if k not in ("stretch", "quartiles", "measures")}
    return {
        **facts,
        "seconds": statistics.median(seconds),
        "fastest": min(seconds),
        "slowest": max(seconds),
        "runs": len(runs),
        "stretches": Counter(row["stretch"] for row in runs),
    }


def scaling_of(row: Row, seconds: float | None = None) -> float:
    """Return the scaling: how many GPUs' work is done; seconds: instead of the measured ones."""
    return float(row["gpus"] * row["computing"] / (seconds or row["seconds"]))


def report(content: dict[str, Any]) -> str:
    """Return all tables."""
    results = Results(content)
    makers = (ethernet, today, all_reduce, operations, buckets, skipped, runs, conditions)
    return "\n\n".join(make(results) for make in makers)


def ethernet(results: Results) -> str:
    """Return the published curve beside the model and the emulation."""
    rows = results.training("2018", 1)
    curve = predict(fit_model().values, Constants())[CURVE]  # fitted to all published points
    fitted = dict(zip(puri.GPUS, curve, strict=True))
    cells = [
        {
            "GPUs": str(gpus),
            "published": f"{PUBLISHED[gpus]:g}",
            "fitted model": f"{fitted[gpus]:.1f}",
            "closed form, nothing fitted": f"{scaling_of(row, row['predicted']):.1f}",
            "emulated, median": f"**{scaling_of(row):.1f}**",
            "its runs": between(row),
            "how many": f"{row['runs']}{slowed(row)}",
            "median off the published point": f"{off(row):+.1%}",
            f"median and off, were computing that of {puri.HOURS_BY_FIGURE:g} h": (
                f"{by_figure(row):.1f}, {by_figure(row) / PUBLISHED[gpus] - 1:+.1%}"
            ),
        }
        for gpus, row in rows.items()
    ]
    worst = max(map(abs, map(off, rows.values())))
    ends = [off(row, row[end]) for row in rows.values() for end in ("fastest", "slowest")]
    return "\n\n".join(
        (
            "### 4,096 units, 10 Gb/s Ethernet, the exchange of 2018",
            table_of(cells),
            f"The worst median is {worst:.1%} off its published point; single runs that count are "
            f"{min(ends):+.1%} to {max(ends):+.1%} off. The computing time is that of {BY_TEXT}, "
            "as their text says; the last column combines the same exchanges with the computing "
            "time of their figure.",
        )
    )


def today(results: Results) -> str:
    """Return the scaling of the same cluster with today's exchange."""
    ways = {(way, k): results.training(way, k) for way in ("2018", "today") for k in (1, 4)}
    cells = [
        [str(gpus), *(emulated(rows[gpus]) for rows in ways.values())] for gpus in ways["today", 1]
    ]
    head = ["GPUs; emulated (predicted)", "2018", "2018, every 4th window"]
    head += ["today", "today, every 4th"]
    row = ways["today", 1][LARGEST]
    return "\n\n".join((
        "### The same cluster with today's exchange, in fp16",
        markdown(head, cells),
        f"It raises the {PUBLISHED[LARGEST]:g} published for {LARGEST} GPUs to "
        f"**{scaling_of(row):.1f}** (median; {between(row)}; runs: {row['runs']}{slowed(row)}).",
    ))  # fmt: skip


def all_reduce(results: Results) -> str:
    """Return the seconds of an all-reduce by size."""
    return table(
        results,
        "all_reduce",
        "### An all-reduce in fp32, by size",
        ("bytes", lambda size: f"{size / 1e6:.3g} MB"),
        ("nodes", lambda nodes: f"{nodes} nodes"),
        lambda row: f"{row['seconds'] * 1e3:.1f} ({row['predicted'] * 1e3:.1f}) ms{times(row)}",
    )


def operations(results: Results) -> str:
    """Return the seconds of 60 million numbers by the number of operations."""
    return table(
        results,
        "operations",
        "### 60 million numbers in fp32, all-reduced in operations of different size, all at once",
        ("operations", lambda count: f"{count} of {PARAMETERS / count:,.0f}"),
        ("nodes", lambda nodes: f"{nodes} nodes"),
        lambda row: f"{row['seconds']:.3f} ({row['predicted']:.3f}) s{times(row)}",
    )


def buckets(results: Results) -> str:
    """Return the exposed seconds by the size of buckets."""
    gpus = results.values("buckets", "gpus")
    return table(
        results,
        "buckets",
        f"### Exposed seconds of a step by bucket size, {', '.join(map(str, gpus))} GPUs, fp16",
        ("cap_mb", lambda cap: f"{cap:g} MB" if cap else "each alone"),
        ("profile", lambda profile: PROFILES[profile]),
        lambda row: f"{exposed(row, 'seconds'):.3f} ({exposed(row, 'predicted'):.3f}){times(row)}",
    )


def skipped(results: Results) -> str:
    """Return the seconds of a window by the number of windows between exchanges."""
    tables = []
    for way in ("2018", "today"):
        every = {k: results.training(way, k) for k in results.values("training", "windows")}
        cells = [
            [str(gpus), *(seconds_of_window(rows[gpus]) for rows in every.values())]
            for gpus in every[1]
        ]
        head = [f"GPUs, exchange of {way}" if way == "2018" else "GPUs, today's exchange"]
        tables.append(markdown([*head, *(f"every {k}" for k in every)], cells))
    title = "### Seconds of a window, gradients exchanged in every k-th"
    return "\n\n".join((title, *tables))


def runs(results: Results) -> str:
    """Return the numbers of runs, and the runs that were left out with the reasons."""
    made = results.content["runs"]
    lost = [row for row in made if disturbances(row["measures"])]
    reasons = Counter(reason for row in lost for reason in disturbances(row["measures"]))
    said = ", ".join(f"{name} {count}" for name, count in reasons.most_common())
    number = Counter(row["runs"] for row in results.rows)
    points = ", ".join(
        f"{count} {'has' if count == 1 else 'have'} {runs}"
        for runs, count in sorted(number.items())
    )
    steps = [row for row in lost if row["kind"] == "training"]
    cells = [
        [
            row["key"],
            f"{scaling_of(row):.1f}{slowed(summary([row]))}",
            ", ".join(f"{k} {v:.1%}" for k, v in disturbances(row["measures"]).items()),
        ]
        for row in sorted(steps, key=lambda row: (row["way"], row["gpus"], row["windows"]))
    ]
    return "\n\n".join((
        "### Runs",
        "A value is the median of all runs of its point during which the machine did nothing else. "
        f"Of {len(results.rows)} points {points}. In the tables, xN marks N runs; no mark means "
        "one run. /2 and /3 mark runs slowed down two and three times, so that the machine's own "
        "work weighs less.",
        f"{len(lost)} of {len(made)} runs are left out: {said}.",
        markdown(["steps left out", "times the speed of one GPU", "why"], cells),
    ))  # fmt: skip


def conditions(results: Results) -> str:
    """Describe the machine of each session."""
    lines = []
    for session in results.content["sessions"]:
        carried = (
            f"{rate * int(nodes) * 8 / 1e9:.1f} Gb/s with {nodes} nodes"
            for nodes, rate in session["ceilings"].items()
        )
        origin = session["origin"]
        lines.append(
            f"- `{origin['command']}`: {origin['date']}, {revision(origin)}, "
            f"{origin['hardware']['cores']} cores, Linux {session['kernel']}, TCP "
            f"{session['congestion_control']}, load before {session['load_before'][0]:.2f}; "
            "all links together without a limit: "
            f"{', '.join(carried) or 'not measured'}"
        )
    return "\n".join(["### Sessions", "", *lines])


def table(
    results: Results,
    kind: str,
    title: str,
    down: tuple[str, Callable[[Any], str]],
    across: tuple[str, Callable[[Any], str]],
    cell: Callable[[Row], str],
) -> str:
    """Return a table of the points of a kind by two of their facts."""
    columns = results.values(kind, across[0])
    rows = []
    for value in results.values(kind, down[0]):
        found = {row[across[0]]: row for row in results.of(kind, **{down[0]: value})}
        rows.append([down[1](value), *(cell(found[column]) for column in columns)])
    head = ["measured (predicted)", *map(across[1], columns)]
    return f"{title}\n\n{markdown(head, rows)}"


def emulated(row: Row) -> str:
    """Return the measured and the predicted scaling of a step; of several runs, also their ends."""
    ends = f" [{between(row)}]" if row["runs"] > 1 else ""
    return f"{scaling_of(row):.1f}{ends} ({scaling_of(row, row['predicted']):.1f}){times(row)}"


def seconds_of_window(row: Row) -> str:
    """Return the seconds of a window."""
    return f"{row['seconds'] / row['windows']:.3f}{times(row)}"


def times(row: Row) -> str:
    """Return the number of runs of a point if there are several, and how many were slowed down."""
    return (f" x{row['runs']}" if row["runs"] > 1 else "") + slowed(row)


def slowed(row: Row) -> str:
    """Return the mark of a point some of whose runs were slowed down."""
    marks = {f"/{times:g}": count for times, count in row["stretches"].items() if times != 1}
    if sum(marks.values()) == row["runs"] and len(marks) == 1:
        return f" {next(iter(marks))}"
    said = ", ".join(f"{count} at {mark}" for mark, count in marks.items())
    return f" ({said})" if said else ""


def exposed(row: Row, key: str) -> float:
    """Return the seconds of a step beyond its computing."""
    return float(row[key] - row["computing"])


def between(row: Row) -> str:
    """Return the scaling of the slowest and the fastest run."""
    return f"{scaling_of(row, row['slowest']):.1f} to {scaling_of(row, row['fastest']):.1f}"


def by_figure(row: Row) -> float:
    """Return the scaling of the same exposed exchange with the longer computing of their figure."""
    computing = puri.computing_seconds(puri.HOURS_BY_FIGURE)
    return float(row["gpus"] * computing / (computing + exposed(row, "seconds")))


def off(row: Row, seconds: float | None = None) -> float:
    """Return the relative difference from the published point."""
    return scaling_of(row, seconds) / PUBLISHED[row["gpus"]] - 1
