"""The results of the studies: one file each, experiments/STUDY/results.json.

A command of a study writes its result as a file of its own under STUDY/results/. Until
`python -m experiments.tables` moves it into results.json, it stands for the one there. So
`read_result("speed", "training_fp32_512")` finds speed/results/training_fp32_512.json, or
`results` / `training_fp32_512` in speed/results.json.

results.json holds

- machines: the versions and the hardware of the results, each combination once; in the origin of
  a result, `machine` is its place in this list;
- results: what tables, figures and commands read, by name;
- frozen: the numbers in the tables that no code makes any more, by page; tests/support/frozen.py
  compares them.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from mlstm_sentiment.commands.program import prepare_output
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_atomically, write_json

EXPERIMENTS = Path(__file__).resolve().parent
FILE = "results.json"
FOLDER = "results"
MACHINE = ("python", "versions", "hardware")  # keys of an origin that many results share
# A list or an object without others in it, over several lines.
INNERMOST = re.compile(r"([\[{])\n\s+([^\[\]{}]*?)\n\s+([\]}])")


class NotMeasured(InputError):
    """A result that is absent."""


def find_result(study: str, name: str) -> Any | None:
    """Return a result of a study; None if it is absent."""
    return result_at(EXPERIMENTS / study / FOLDER / f"{name}.json")


def read_result(study: str, name: str) -> Any:
    """Return a result of a study; NotMeasured if it is absent."""
    result = find_result(study, name)
    if result is None:
        raise NotMeasured(f"experiments/{study}/{FILE}: has no result {name}")
    return result


def write_result(study: str, name: str, content: Mapping[str, Any]) -> None:
    """Write a new result of a study; it stands for the one in results.json."""
    path = EXPERIMENTS / study / FOLDER / f"{name}.json"
    prepare_output(path)
    write_json(path, content, None)


def result_at(path: Path) -> Any | None:
    """Return the result that a command writes to this file; None if it is absent.

    In the results folder of a study, results.json stands for the files that it took over.
    """
    if path.is_file():
        return read_json(path)
    folder = next((each for each in path.resolve().parents if each.name == FOLDER), None)
    if folder is None or folder.parent.parent != EXPERIMENTS:
        return None
    name = path.resolve().relative_to(folder).with_suffix("").as_posix()
    return _results_in(folder.parent / FILE).get(name)


def names(study: str) -> list[str]:
    """Return the names of the results in a study's results.json."""
    return list(_results_in(EXPERIMENTS / study / FILE))


def collect() -> list[str]:
    """Move the new results of all studies into their results.json; return their names."""
    moved = []
    for study in sorted(path for path in EXPERIMENTS.glob("*/") if (path / FOLDER).is_dir()):
        files = sorted((study / FOLDER).rglob("[!.]*.json"))
        if not files:
            continue
        whole = read_study(study.name)
        for path in files:
            name = path.relative_to(study / FOLDER).with_suffix("").as_posix()
            whole["results"][name] = read_json(path)
            moved.append(f"{study.name}/{name}")
        write_study(study.name, whole)
        for path in files:
            path.unlink()
    return moved


def read_study(study: str) -> dict[str, Any]:
    """Return `results` and `frozen` of a study."""
    path = EXPERIMENTS / study / FILE
    if not path.is_file():
        return {"results": {}, "frozen": {}}
    whole = read_json(path)
    machines = whole.pop("machines")

    def expand(origin: dict[str, Any]) -> dict[str, Any]:
        places = {key: value for key, value in origin.items() if key != "machine"}
        return {**places, **machines[origin["machine"]]} if "machine" in origin else places

    return {**whole, "results": _with_origins(whole["results"], expand)}


def write_study(study: str, whole: dict[str, Any]) -> None:
    """Write `results` and `frozen` of a study, each machine once."""
    machines: list[dict[str, Any]] = []

    def shorten(origin: dict[str, Any]) -> dict[str, Any]:
        machine = {key: origin[key] for key in MACHINE if key in origin}
        if set(machine) != set(MACHINE):
            return origin
        if machine not in machines:
            machines.append(machine)
        others = {key: value for key, value in origin.items() if key not in MACHINE}
        return {**others, "machine": machines.index(machine)}

    short = _with_origins(dict(sorted(whole["results"].items())), shorten)
    text = json.dumps({"machines": machines, **whole, "results": short}, indent=1)
    text = INNERMOST.sub(_in_one_line, text)
    path = EXPERIMENTS / study / FILE
    write = partial(Path.write_text, data=text + "\n", encoding="utf-8")
    write_atomically(path, write, None)
    _results_in.cache_clear()


@cache
def _results_in(path: Path) -> dict[str, Any]:
    return read_study(path.parent.name)["results"] if path.is_file() else {}


def _in_one_line(match: re.Match[str]) -> str:
    start, inner, end = match.groups()
    return start + re.sub(r"\n\s+", " ", inner) + end


def _with_origins(
    value: Any, change: Callable[[dict[str, Any]], dict[str, Any]], key: str = ""
) -> Any:
    """Return a value in which every dictionary called `origin` is changed."""
    if isinstance(value, list):
        return [_with_origins(item, change) for item in value]
    if isinstance(value, dict):
        inner = {name: _with_origins(item, change, name) for name, item in value.items()}
        return change(inner) if key == "origin" else inner
    return value
