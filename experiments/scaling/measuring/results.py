"""The JSON file of a point: its launches, the quartiles over them, or why one failed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from data_utils.provenance import describe_origin
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import check_format_version, read_json
from mlstm_sentiment.files.writer import write_json

from .points import Point, Settings

FORMAT_VERSION = 1
Repeat = dict[str, Any]  # what a launch measured: `clock`, a row for each block; `environment`


def path_of(folder: Path, point: Point) -> Path:
    """Return the file of a point."""
    return folder / f"{point.name}.json"


def read_point(path: Path) -> dict[str, Any]:
    """Read the file of a point; InputError where it is another file."""
    content = read_json(path)
    if "point" not in content:
        raise InputError(f"{path}: not a point of a sweep")
    check_format_version(content, FORMAT_VERSION, path)
    return content


def read_sweep(folder: Path) -> list[dict[str, Any]]:
    """Read all points of a folder, sorted by name."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no points; measure some with experiments.scaling.sweep")
    return [read_point(path) for path in paths]


def existing_result(folder: Path, point: Point, settings: Settings) -> dict[str, Any]:
    """Return what the file of a point holds, or an empty result.

    Raises InputError where the point was measured with other settings, which do not compare.
    """
    path = path_of(folder, point)
    if not path.exists():
        return {"repeats": [], "failure": None}
    content, current = read_point(path), settings.settings
    for name, value in content["settings"].items():
        if current.get(name, value) != value:
            raise InputError(
                f"{path}: measured with {name} {value}, not {current[name]}; keep it, or name "
                "another folder"
            )
    return content


def add(folder: Path, point: Point, settings: Settings, outcome: Repeat | str) -> dict[str, Any]:
    """Add a launch to the file of a point, or the reason why it failed; return the content."""
    failure = outcome if isinstance(outcome, str) else None
    repeats = existing_result(folder, point, settings)["repeats"]
    repeats = [*repeats, *([] if isinstance(outcome, str) else [outcome])]
    content = {
        "format_version": FORMAT_VERSION,
        "point": asdict(point),
        "settings": settings.settings,
        "failure": failure,
        "summary": summary(repeats) if repeats else None,
        "repeats": repeats,
        "origin": describe_origin(),
    }
    write_json(path_of(folder, point), content, "a result")
    return content


def summary(repeats: Sequence[Repeat]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the median and the quartiles of each column over the blocks of all launches."""
    return {"clock": quartiles([block for repeat in repeats for block in repeat["clock"]])}


def quartiles(rows: list[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the median, the lower and the upper quartile of each column."""
    table = pd.DataFrame(rows).quantile([0.5, 0.25, 0.75])
    return table.set_axis(["median", "low", "high"]).to_dict()
