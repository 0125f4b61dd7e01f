"""Planned against actual: the speed of a run, and what the planner says of its config."""

from pathlib import Path
from statistics import median
from typing import Any

from configs.options import SHIPPED, load_config, read_toml
from mlstm_sentiment.errors import InputError
from training.runs.run_directory import PretrainingDirectory, read_rows

from .hardware import ClusterConfig
from .planning import Plan, TextSize

CLUSTERS = SHIPPED / "clusters"


def compare_with_run(cluster_file: Path, folder: Path) -> dict[str, Any]:
    """Return the planned and the actual speed of a run, by the median of its rows."""
    cluster = read_toml(cluster_file, ClusterConfig, CLUSTERS)
    directory = PretrainingDirectory(folder).check_exists()
    config, rows = load_config(directory.config), read_rows(directory.metrics)
    # The first one includes compilation.
    speeds = [row["characters_per_second"] for row in rows[1:] if "characters_per_second" in row]
    if not speeds:
        raise InputError(f"{directory.metrics}: too few rows to measure a speed; train longer")
    last, lanes = rows[-1], config.data.total_lanes(1)
    tokens = last["step"] * config.parallel.windows_per_step * lanes * config.data.window
    text = TextSize(last["characters"], last["characters"] / tokens)
    gpus = len(last.get("rank_characters_per_second") or [None])
    planned, actual = Plan(cluster, config, gpus, text).characters_per_second, median(speeds)
    return {
        "planned_characters_per_second": planned,
        "actual_characters_per_second": actual,
        "actual_to_planned": actual / planned,
    }


def in_words(result: dict[str, Any], cluster_file: Path) -> str:
    _, actual, ratio = result.values()
    return f"speed: {actual:,.0f} characters/s, {ratio:.2f} of the plan of {cluster_file.name}"
