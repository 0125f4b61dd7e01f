"""What a new user waits for: the installation of the README, and the first answers after it.

python -m experiments.tour.first_answer --output experiments/tour/results/first_answer.json
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import ROOT, describe_origin
from mlstm_sentiment.bounds import PositiveInt
from mlstm_sentiment.files.writer import write_json

TORCH = "torch==2.13.0"  # as in the README
SENTENCE = "I love it, it works perfectly."


@dataclass(frozen=True)
class Options:
    """Install the package into a fresh environment as the README says, and classify a sentence."""

    output: Path
    """The JSON file to write."""
    torch_index: str | None = None
    """pip's --index-url for torch. Default: as pip is configured."""
    answers: PositiveInt = 5
    """Answers after the first."""


def main() -> None:
    options = command.parse(Options, __doc__)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options)
    write_json(options.output, {**result, "origin": describe_origin()}, "a result")


def measure(folder: Path, options: Options) -> dict[str, Any]:
    """Return the seconds of installation and answers, and the megabytes of the environment."""
    # The cache is a new one: the recurrence is compiled for the first answer.
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PIP_NO_CACHE_DIR": "1"}
    venv = folder / "venv"
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet"]
    index = ["--index-url", options.torch_index] if options.torch_index else []
    install = [
        timed([sys.executable, "-m", "venv", venv], environment),
        timed([*pip, TORCH, *index], environment),
        timed([*pip, ROOT], environment),
    ]
    ask = [venv / "bin" / "mlstm-sentiment", "classify", "--text", SENTENCE]
    first, *later = (timed(ask, environment) for _ in range(1 + options.answers))
    return {
        "install": {key: sum(step[key] for step in install) for key in install[0]},
        "megabytes": folder_bytes(venv) / 1e6,
        "first": first,
        "later": later,
    }


def timed(words: list[Any], environment: Mapping[str, str]) -> dict[str, float]:
    """Run a command; return its seconds by the clock, and those of the processor."""
    before, started = processor_seconds(), time.perf_counter()
    subprocess.run(words, env=environment, cwd="/", check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "processor_seconds": processor_seconds() - before}


def processor_seconds() -> float:
    """Return the processor's seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder; a link counts as itself."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return sum(path.lstat().st_size for path in files)


if __name__ == "__main__":
    command.run(main)
