"""The JSON file of a point: its repeats as they come, their medians, or why it failed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.provenance import describe_origin
from model.errors import InputError
from model.files.storage import check_format_version, read_json, write_json

from .points import Point, Settings

FORMAT_VERSION = 1
Repeat = dict[str, Any]  # what a launch measured: see rank.measure


def path_of(folder: Path, point: Point) -> Path:
    """Return where a point's result is."""
    return folder / f"{point.name}.json"


def read_point(path: Path) -> dict[str, Any]:
    """Read a point's result; InputError where a file is something else."""
    content = read_json(path)
    if "point" not in content:
        raise InputError(f"{path}: not a point of a sweep")
    check_format_version(content, FORMAT_VERSION, path)
    return content


def read_sweep(folder: Path) -> list[dict[str, Any]]:
    """Read all points of a folder, by their names."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no points; measure some with experiments.scaling.sweep")
    return [read_point(path) for path in paths]


def known(folder: Path, point: Point, settings: Settings) -> dict[str, Any]:
    """Return what is there of a point, perhaps nothing yet.

    Raises InputError where it was measured with other settings: the two would not compare.
    """
    path = path_of(folder, point)
    if not path.exists():
        return {"repeats": [], "failure": None}
    content, given = read_point(path), settings.settings
    for name, value in content["settings"].items():
        if given[name] != value:
            raise InputError(
                f"{path}: measured with {name} {value}, not {given[name]}; keep it, or take "
                "another folder"
            )
    return content


def add_repeat(folder: Path, point: Point, settings: Settings, repeat: Repeat) -> None:
    """Put what a launch measured beside what is there."""
    repeats = [*known(folder, point, settings)["repeats"], repeat]
    write_point(folder, point, settings, repeats, failure=None)


def add_failure(folder: Path, point: Point, settings: Settings, reason: str) -> None:
    """Say why a point has no more repeats."""
    repeats = known(folder, point, settings)["repeats"]
    write_point(folder, point, settings, repeats, failure=reason)


def write_point(
    folder: Path, point: Point, settings: Settings, repeats: list[Repeat], failure: str | None
) -> None:
    """Write a point's file, atomically."""
    content = {
        "format_version": FORMAT_VERSION,
        "point": asdict(point),
        "settings": settings.settings,
        "failure": failure,
        "summary": summary(repeats) if repeats else None,
        "repeats": repeats,
        "origin": describe_origin(),
    }
    write_json(path_of(folder, point), content)


def summary(repeats: Iterable[Repeat]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the quartiles of everything: by the clock over all blocks, of the profiler's steps."""
    return {
        "clock": quartiles([block for repeat in repeats for block in repeat["clock"]]),
        "profiler": quartiles([repeat["profiler"] for repeat in repeats]),
    }


def quartiles(rows: list[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return each column's median, and the quartiles below and above it."""
    result = {}
    for name in rows[0]:
        low, median, high = np.percentile([row[name] for row in rows], [25, 50, 75]).tolist()
        result[name] = {"median": median, "low": low, "high": high}
    return result
