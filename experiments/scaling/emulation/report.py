"""The results as Markdown."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..tables import markdown
from .points import PARAMETERS
from .results import BOUND, PUBLISHED, Results, Row, fitted_curve, scaling_of

LARGEST = 128
PROFILES = {
    "feed-forward": "160 equal layers",
    "together": "mLSTM, all at the end",
    "one by one": "mLSTM, gate by gate (today)",
}


def report(content: dict[str, Any]) -> str:
    """Return every table there are points for."""
    results = Results(content)
    parts = [ethernet, today, all_reduce, operations, buckets, skipped, runs, conditions]
    texts = (part(results) for part in parts)
    return "\n\n".join(filter(None, texts))


def ethernet(results: Results) -> str:
    """Return the published curve beside the model and the emulation."""
    rows, fitted, worst = results.training("2018", 1), fitted_curve(), results.worst()
    if worst is None:
        return ""
    cells = [
        [
            str(gpus),
            f"{PUBLISHED[gpus]:g}",
            f"{fitted[gpus]:.1f}",
            f"{scaling_of(row, row['predicted']):.1f}",
            f"**{scaling_of(row):.1f}**{slowed(row)}",
            quartiles(row),
            f"{scaling_of(row) / PUBLISHED[gpus] - 1:+.1%}",
            all_runs(results, gpus),
        ]
        for gpus, row in rows.items()
    ]
    head = ["GPUs", "published", "fitted model", "closed form, nothing fitted", "emulated"]
    kept = "within" if worst <= BOUND else "NOT within"
    return "\n\n".join(
        (
            "### 4,096 units, 10 Gb/s Ethernet, the exchange of 2018",
            markdown([*head, "quartiles", "off the published point", "all its runs"], cells),
            f"The worst emulated point is {worst:.1%} off: {kept} the {BOUND:.0%} asked for.",
        )
    )


def today(results: Results) -> str:
    """Return what today's exchange makes of the same cluster."""
    ways = {(way, k): results.training(way, k) for way in ("2018", "today") for k in (1, 4)}
    if not ways["today", 1]:
        return ""
    cells = [
        [str(gpus), *(emulated(rows.get(gpus)) for rows in ways.values())]
        for gpus in sorted(ways["today", 1].keys() | ways["today", 4].keys())
    ]
    head = [
        "GPUs; emulated (foretold)",
        "2018",
        "2018, every 4th window",
        "today",
        "today, every 4th",
    ]
    text = [
        "### The same cluster with today's exchange, in fp16",
        markdown(head, cells),
    ]
    if LARGEST in ways["today", 1]:
        best = ways["today", 4].get(LARGEST)
        text.append(
            f"Of {PUBLISHED[LARGEST]:g} published at {LARGEST} GPUs it makes "
            f"**{scaling_of(ways['today', 1][LARGEST]):.1f}**"
            + (f", and {scaling_of(best):.1f} with every fourth window exchanged." if best else ".")
        )
    return "\n\n".join(text)


def all_reduce(results: Results) -> str:
    """Return seconds of an all-reduce by size."""
    return table(
        results,
        "all_reduce",
        "### An all-reduce in fp32, by size",
        ("bytes", lambda size: f"{size / 1e6:.3g} MB"),
        ("nodes", lambda nodes: f"{nodes} nodes"),
        lambda row: f"{row['seconds'] * 1e3:.1f} ({row['predicted'] * 1e3:.1f}) ms",
    )


def operations(results: Results) -> str:
    """Return seconds of 60 million numbers by how they are cut."""
    return table(
        results,
        "operations",
        "### 60 million numbers in fp32, all-reduced in operations of different size, all at once",
        ("operations", lambda count: f"{count} of {PARAMETERS / count:,.0f}"),
        ("nodes", lambda nodes: f"{nodes} nodes"),
        lambda row: f"{row['seconds']:.3f} ({row['predicted']:.3f}) s",
    )


def buckets(results: Results) -> str:
    """Return exposed seconds by the size of buckets."""
    gpus = results.values("buckets", "gpus")
    return table(
        results,
        "buckets",
        f"### Exposed seconds of a step by bucket size, {', '.join(map(str, gpus))} GPUs, fp16",
        ("cap_mb", lambda cap: f"{cap:g} MB" if cap else "each alone"),
        ("profile", lambda profile: PROFILES[profile]),
        lambda row: f"{exposed(row, 'seconds'):.3f} ({exposed(row, 'predicted'):.3f}){slowed(row)}",
    )


def skipped(results: Results) -> str:
    """Return seconds of a window by how often gradients are exchanged."""
    tables = []
    for way in ("2018", "today"):
        every = {k: results.training(way, k) for k in results.values("training", "windows")}
        if len(every) < 3:  # the other parts have two of them
            return ""
        cells = [
            [str(gpus), *(seconds_of_window(rows.get(gpus)) for rows in every.values())]
            for gpus in sorted(set().union(*every.values()))
        ]
        head = [f"GPUs, exchange of {way}" if way == "2018" else "GPUs, today's exchange"]
        tables.append(markdown([*head, *(f"every {k}" for k in every)], cells))
    title = "### Seconds of a window, gradients exchanged in every k-th"
    return "\n\n".join((title, *tables))


def runs(results: Results) -> str:
    """Return how many runs were discarded, and why."""
    discarded = results.content["discarded"]
    total = len(discarded) + len(results.rows)
    reasons = Counter(reason for row in discarded for reason in row["reasons"])
    said = ", ".join(f"{name} {count}" for name, count in reasons.most_common())
    text = [
        "### Runs",
        f"{len(discarded)} of {total} runs were discarded{': ' * bool(said)}{said}.",
    ]
    alone: dict[str, list[str]] = {}
    for row in discarded:
        if list(row["reasons"]) == ["model"]:
            alone.setdefault(row["key"], []).append(f"{row['seconds'] / row['predicted'] - 1:+.1%}")
    if alone:
        listed = "; ".join(f"{key}: {', '.join(errors)}" for key, errors in alone.items())
        text.append(f"For nothing but their difference from what was foretold: {listed}.")
    without = {row["key"] for row in discarded} - set(results.content["points"])
    if without:
        text.append(f"**No valid run**: {'; '.join(sorted(without))}.")
    if said := stretched(results):
        text.append(f"Slowed down, for the machine's own share to weigh less (/2, /3): {said}.")
    return "\n\n".join(text)


def all_runs(results: Results, gpus: int) -> str:
    """Return between what all runs of a published point lie, those that do not count among them."""
    wanted = {"kind": "training", "way": "2018", "windows": 1, "gpus": gpus}
    found = [scaling_of(row) for row in results.every_run() if wanted.items() <= row.items()]
    return f"{len(found)}: {min(found):.1f} to {max(found):.1f}"


def stretched(results: Results) -> str:
    """Say of how many points a second took longer here than there, and by how much."""
    counts = Counter(row["stretch"] for row in results.rows if row["stretch"] != 1)
    return ", ".join(f"{count} points {times:g} times" for times, count in sorted(counts.items()))


def conditions(results: Results) -> str:
    """Return what each session's machine was like."""
    lines = []
    for session in results.content["sessions"]:
        carried = (
            f"{rate * int(nodes) * 8 / 1e9:.1f} Gb/s with {nodes} nodes"
            for nodes, rate in session["ceilings"].items()
        )
        origin = session["origin"]
        lines.append(
            f"- `{origin['command']}`: {origin['date']}, {origin['git_revision']}, "
            f"{origin['hardware']['cores']} cores, Linux {session['kernel']}, TCP "
            f"{session['congestion_control']}, load before {session['load_before'][0]:.2f}; "
            "all links together without a limit: "
            f"{', '.join(carried) or 'not measured'}"
        )
    return "\n".join(["### Sessions", "", *lines]) if lines else ""


def table(
    results: Results,
    kind: str,
    title: str,
    down: tuple[str, Callable[[Any], str]],
    across: tuple[str, Callable[[Any], str]],
    cell: Callable[[Row], str],
) -> str:
    """Return the points of a kind, by two of their facts."""
    if not results.of(kind):
        return ""
    columns = results.values(kind, across[0])
    rows = []
    for value in results.values(kind, down[0]):
        found = {row[across[0]]: row for row in results.of(kind, **{down[0]: value})}
        rows.append([down[1](value), *(cell(found[c]) if c in found else "-" for c in columns)])
    head = ["measured (foretold)", *map(across[1], columns)]
    return f"{title}\n\n{markdown(head, rows)}"


def emulated(row: Row | None) -> str:
    """Return a step's scaling, and that foretold."""
    if row is None:
        return "-"
    return f"{scaling_of(row):.1f} ({scaling_of(row, row['predicted']):.1f}){slowed(row)}"


def seconds_of_window(row: Row | None) -> str:
    """Return seconds per window."""
    return "-" if row is None else f"{row['seconds'] / row['windows']:.3f}{slowed(row)}"


def slowed(row: Row) -> str:
    """Mark a point that was slowed down."""
    return "" if row["stretch"] == 1 else f" /{row['stretch']:g}"


def exposed(row: Row, key: str) -> float:
    """Return what is left of a step beyond its computing."""
    return float(row[key] - row["computing"])


def quartiles(row: Row) -> str:
    """Return the scaling that a quarter of the steps stays below, and above."""
    slow, fast = sorted(scaling_of(row, seconds) for seconds in row["quartiles"])
    return f"{slow:.1f} to {fast:.1f}"
