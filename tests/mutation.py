"""Which changes to the code does no test notice? Mutation testing with mutmut (pip install mutmut).

python -m tests.mutation data_utils/lanes.py --tests tests/data_utils/test_lanes.py
python -m tests.mutation data_utils/lanes.py --tests tests/data_utils/test_lanes.py --minutes 3

It works on a copy of the checkout in --folder, where a second call goes on; those who survive are
shown as differences. Module level and decorated functions are not mutated; `# pragma: no mutate`
leaves a line out.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import tomli_w

from tests.support.runs import ROOT

SOURCES = (
    "configs",
    "data_utils",
    "experiments",
    "model",
    "scaling",
    "scripts",
    "training",
    "transfer",
)
FOLDER = Path(tempfile.gettempdir()) / "mutation"
MUTMUT = (sys.executable, "-m", "mutmut")


def main() -> None:
    """Copy, mutate, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="to mutate")
    parser.add_argument("--tests", nargs="+", required=True, help="that should notice")
    parser.add_argument("--deselect", nargs="*", default=[], help="tests that take too long")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="to work in")
    parser.add_argument("--minutes", type=float, help="to stop after; the next call goes on")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON of the counts and the survivors")
    options = parser.parse_args()
    prepare(options.folder, options.files, options.tests, options.deselect)
    mutate(options.folder, options.processes, options.minutes)
    result = outcome(options.folder)
    print("  ".join(f"{name} {count}" for name, count in result["counts"].items()))
    if options.output:
        options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def prepare(folder: Path, files: list[str], tests: list[str], deselected: list[str]) -> None:
    """Copy the checkout and write what mutmut is to do into the copy's pyproject.toml."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    skipped = [word for test in deselected for word in ("--deselect", test)]
    content["tool"]["mutmut"] = {
        "source_paths": list(SOURCES),
        "only_mutate": files,
        "also_copy": ["main.py", "README.md", "CHANGELOG.md"],
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-x", "-p", "no:cacheprovider", *skipped],
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps(content), encoding="utf-8")


def mutate(folder: Path, processes: int, minutes: float | None) -> None:
    """Try the mutants that were not tried yet."""
    command = [*MUTMUT, "run", "--max-children", str(processes)]
    try:
        subprocess.run(command, cwd=folder, check=True, timeout=minutes and 60 * minutes)
    except subprocess.TimeoutExpired:
        print("\nstopped; the same command goes on")


def outcome(folder: Path) -> dict[str, dict[str, int] | dict[str, str]]:
    """Return how many mutants ended in which way, and the differences of those who survived."""
    results = [*MUTMUT, "results", "--all", "true"]
    lines = subprocess.run(results, cwd=folder, capture_output=True, check=True, text=True).stdout
    ends = dict(line.strip().rsplit(": ", 1) for line in lines.splitlines() if ": " in line)
    survivors = [name for name, end in ends.items() if end in ("survived", "no tests")]
    return {
        "counts": dict(Counter(ends.values())),
        "survivors": {name: difference(folder, name) for name in survivors},
    }


def difference(folder: Path, mutant: str) -> str:
    """Return what a mutant changes."""
    shown = subprocess.run(
        [*MUTMUT, "show", mutant], cwd=folder, capture_output=True, check=True, text=True
    )
    print(shown.stdout)
    return shown.stdout


if __name__ == "__main__":
    main()
