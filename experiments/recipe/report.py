"""The tables of the study, which is closed: runs.toml declares what each run changed."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from experiments.tables import markdown, origins, read_result
from model.files.storage import read_json

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
RUNS = tomllib.loads((HERE / "runs.toml").read_text())
BASE = "muon_1e-2"
SEED = "_seed_"  # precedes the seed in the names of a finalist's further runs


def shown(folder: str) -> str:
    """Return the tables of one corpus: each run with its first seed, then the finalists' seeds."""
    results = found(RESULTS / folder)
    speeds = read_json(HERE / "speed.json")["ratios"]
    first_seeds = [result for result in results if SEED not in result["name"]]
    revisions = origins({f"{result['name']}.json": result for result in results})
    return "\n\n".join(filter(None, (table(first_seeds, speeds), finalists(results), revisions)))


def thin_windows() -> str:
    """Return the score with and without lowering the rate where few lanes still have text."""
    found = {name: read_result("recipe", f"thin_windows/{name}") for name in ("before", "after")}
    rows = [[name, f"{result['valid_bits_per_character']:.4f}"] for name, result in found.items()]
    head = ["a part of the corpus read often", "valid, bits per character"]
    return f"{markdown(head, rows)}\n\n{origins({f'{n}.json': r for n, r in found.items()})}"


def found(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder, on one corpus, in the order of runs.toml."""
    paths = [folder / f"{name}.json" for stage in RUNS["budget"] for name in RUNS[stage]]
    return [read_json(path) for path in paths if path.exists()]


def table(results: list[dict[str, Any]], speeds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the results in Markdown, the best first."""
    base = next(r["valid_bits_per_character"] for r in results if r["name"] == BASE)
    rows = []
    for result in sorted(results, key=lambda r: r["valid_bits_per_character"]):
        bits, speed = result["valid_bits_per_character"], speeds.get(result["name"])
        cells = [f"{bits:.4f}", f"{bits - base:+.4f}", f"{speed['median']:.2f}" if speed else ""]
        rows.append([f"`{result['name']}`", changes(result), *cells])
    head = ["run", "changes of the base", "valid, bits per character", "against it", "its speed"]
    return markdown(head, rows)


def changes(result: Mapping[str, Any]) -> str:
    """Return the keys in which a run differs from the base, and its corpus if it has its own."""
    base = {**RUNS["base"], **RUNS["screening"][BASE]}
    keys = {key: value for key, value in result["keys"].items() if base.get(key) != value}
    words = [f"{key.partition('.')[2]} {value}" for key, value in keys.items()]
    if corpus := result.get("corpus"):
        words.append(f"corpus `{corpus}`")
    return ", ".join(words)


def finalists(results: list[dict[str, Any]]) -> str:
    """Return the scores, the mean and the standard deviation of runs with several seeds."""
    by_name: dict[str, list[float]] = {}
    for result in results:
        name = result["name"].split(SEED)[0]
        by_name.setdefault(name, []).append(result["valid_bits_per_character"])
    rows = []
    for name, scores in by_name.items():
        if len(scores) > 1:
            each = ", ".join(f"{bits:.4f}" for bits in scores)
            rows.append([name, each, f"{mean(scores):.4f}", f"{stdev(scores):.4f}"])
    return markdown(["run", "seeds", "mean", "standard deviation"], rows) if rows else ""
