"""The statistics of a corpus as a table for people."""

from collections.abc import Sequence
from typing import Any

HEADINGS = (
    "reviews",
    "bytes",
    "mean",
    "median",
    "90 %",
    "99 %",
    "longest",
    "non-ASCII",
    "repeated",
)
WIDTHS = (13, 17, 9, 8, 8, 8, 11, 11, 12)
BAR_WIDTH = 40  # characters


def statistics_table(statistics: dict[str, Any]) -> str:
    """Return the counts of every part, then stars and lengths of all parts together."""
    parts = dict(statistics["parts"])
    if len(parts) > 1:
        parts["all"] = statistics["all"]
    width = max(len(name) for name in parts)
    lines = [f"{'':<{width}}" + _row(HEADINGS)]
    for name, part in parts.items():
        lines.append(f"{name:<{width}}" + _row(_cells(part)))
    shared = statistics["all"]["duplicates"] - sum(
        part["duplicates"] for part in statistics["parts"].values()
    )
    if len(parts) > 1:
        lines.append(f"\n{shared:,} texts of a part are in an earlier one too")
    if statistics["all"]["stars"]:
        lines += ["\nstars", *_bars(statistics["all"]["stars"])]
    histogram = statistics["all"]["length_histogram"]
    edges = [f"{edge:,}" for edge in histogram["lower_edges"]]
    lengths = dict(zip(edges, histogram["reviews"], strict=True))
    return "\n".join([*lines, "\nlength in bytes, from", *_bars(lengths)])


def _row(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def _cells(part: dict[str, Any]) -> list[str]:
    numbers = [part.get(key) for key in ("median", "p90", "p99", "longest")]
    mean, fraction = part["mean_length"], part["share_outside_ascii"]
    return [
        f"{part['reviews']:,}",
        f"{part['bytes']:,}",
        "-" if mean is None else f"{mean:,.1f}",
        *("-" if number is None else f"{number:,}" for number in numbers),
        "-" if fraction is None else f"{fraction:.3%}",
        f"{part['duplicates']:,}",
    ]


def _bars(counts: dict[str, int]) -> list[str]:
    total, most = sum(counts.values()) or 1, max(counts.values(), default=0) or 1
    return [
        f"{name:>9} {count:>13,} {count / total:>7.2%} {'#' * round(BAR_WIDTH * count / most)}"
        for name, count in counts.items()
    ]
