"""Compare the preparation of a corpus with decompression alone and with earlier approaches.

python -m experiments.data.benchmark large.jsonl.gz --output experiments/data/results/speed.json
"""

import gzip
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from configs import command
from data_utils.provenance import describe_origin
from model.files.storage import write_json

ROOT = Path(__file__).resolve().parent.parent.parent
PIECE = 1 << 20
SAMPLE_SECONDS = 0.05  # between two samples of memory


@dataclass(frozen=True)
class Options:
    """Time the preparation, decompression alone, pandas, and the approach of 2018, in turns."""

    source: Annotated[Path, tyro.conf.Positional]
    """A .jsonl.gz file that experiments.data.enlarge made."""
    output: Path
    """The JSON file of results."""
    rounds: int = 3
    """Rounds; each runs every contender once."""
    skip: tuple[str, ...] = ()
    """Contenders to leave out."""


def main() -> None:
    compare(command.parse(Options, __doc__))


def compare(options: Options) -> None:
    """Time every contender in turns, and write the result."""
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.source.parent) as folder:
        plain = Path(folder) / options.source.stem
        with gzip.open(options.source) as packed, open(plain, "wb") as file:
            shutil.copyfileobj(packed, file, PIECE)
        contenders = contenders_for(options.source, plain, Path(folder))
        rounds: dict[str, list[dict[str, float]]] = {
            name: [] for name in contenders if name not in options.skip
        }
        for _ in range(options.rounds):
            for name, results in rounds.items():
                results.append(contenders[name]())
                print(f"{name:<24}{results[-1]['seconds']:8.2f} s", flush=True)
    write_json(options.output, summary(rounds, options.source))


def contenders_for(
    packed: Path, plain: Path, folder: Path
) -> dict[str, Callable[[], dict[str, float]]]:
    """Return the contenders by name."""
    return {
        "gzip alone, zlib": lambda: timed(gunzip, packed, gzip.open),
        "gzip alone, isal": lambda: timed(gunzip, packed, isal_open()),
        "ours, gz, 1 process": lambda: prepared(packed, folder, 1),
        "ours, gz, 2 processes": lambda: prepared(packed, folder, 2),
        "ours, plain, 1 process": lambda: prepared(plain, folder, 1),
        "ours, plain, 2 processes": lambda: prepared(plain, folder, 2),
        "pandas read_json": lambda: in_process("pandas_lines", plain),
        "2018": lambda: in_process("approach_2018", plain, folder / "2018.json"),
    }


def isal_open() -> Any:
    """Return the opener of the library that preparation uses."""
    from isal import igzip

    return igzip.open


def timed(function: Callable[..., object], *arguments: object) -> dict[str, float]:
    """Return the seconds of a call."""
    started = time.perf_counter()
    function(*arguments)
    return {"seconds": time.perf_counter() - started}


def gunzip(path: Path, opener: Any) -> None:
    """Decompress a file and discard the bytes."""
    with opener(path, "rb") as file:
        while file.read(PIECE):
            pass


def prepared(source: Path, folder: Path, workers: int) -> dict[str, float]:
    """Run scripts/prepare_corpus.py; return its seconds and its peak of anonymous bytes."""
    output = folder / "corpus"
    process = subprocess.Popen(
        [
            *(sys.executable, ROOT / "scripts/prepare_corpus.py", source),
            *("--output", output, "--workers", str(workers)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    watch = MemoryWatch(process.pid)
    result = timed(process.communicate)
    result["peak_anonymous_bytes"] = watch.stop()
    if process.returncode:
        raise RuntimeError("scripts/prepare_corpus.py failed")
    shutil.rmtree(output)
    return result


class MemoryWatch:
    """Sample the anonymous memory of a process and its children, and keep the largest value."""

    def __init__(self, pid: int):
        self.pid, self.peak, self.ended = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(map(anonymous_bytes, family(self.pid))))

    def stop(self) -> int:
        """Stop sampling and return the peak."""
        self.ended.set()
        self.thread.join()
        return self.peak


def family(pid: int) -> list[int]:
    """Return the ids of a process and of all processes that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in family(int(child)))]


def anonymous_bytes(pid: int) -> int:
    """Return the memory of a process that no file backs."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
    return 1024 * int(kilobytes[0]) if kilobytes else 0


def in_process(name: str, *arguments: Path) -> dict[str, float]:
    """Run a contender in a process of its own, which frees its memory in the end."""
    code = f"from experiments.data.benchmark import {name} as run; import sys; run(*sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT)
    watch = MemoryWatch(process.pid)
    result = timed(process.wait)
    result["peak_anonymous_bytes"] = watch.stop()
    if process.returncode:
        raise RuntimeError(f"{name} failed")
    return result


def pandas_lines(path: str) -> None:
    """Read the records with pandas, and do nothing else."""
    import pandas as pd

    pd.read_json(path, lines=True)


def approach_2018(path: str, output: str) -> None:
    """Do what NVIDIA's loader did: hold all texts in memory, clean them, write one file."""
    import html

    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    texts = [html.unescape(record["reviewText"]).replace("\n", " ").strip() for record in records]
    with open(output, "w", encoding="utf-8") as file:
        file.write("".join(f"\n {text} " for text in texts))


def summary(rounds: dict[str, list[dict[str, float]]], source: Path) -> dict[str, Any]:
    """Return the medians and the ratios that the targets name."""
    seconds = {name: [r["seconds"] for r in results] for name, results in rounds.items()}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    pairs = {
        "zlib / ours, 1 process": ("gzip alone, zlib", "ours, gz, 1 process"),
        "zlib / ours, 2 processes": ("gzip alone, zlib", "ours, gz, 2 processes"),
        "isal / ours, 1 process": ("gzip alone, isal", "ours, gz, 1 process"),
        "isal / ours, 2 processes": ("gzip alone, isal", "ours, gz, 2 processes"),
        "plain, 1 / 2 processes": ("ours, plain, 1 process", "ours, plain, 2 processes"),
        "pandas / ours, plain, 1 process": ("pandas read_json", "ours, plain, 1 process"),
        "pandas / ours, plain, 2 processes": ("pandas read_json", "ours, plain, 2 processes"),
        "2018 / ours, plain, 1 process": ("2018", "ours, plain, 1 process"),
        "2018 / ours, plain, 2 processes": ("2018", "ours, plain, 2 processes"),
    }
    ratios = {
        name: statistics.median([x / y for x, y in zip(seconds[a], seconds[b], strict=True)])
        for name, (a, b) in pairs.items()
        if a in seconds and b in seconds
    }
    memory = {
        name: max(r["peak_anonymous_bytes"] for r in results)
        for name, results in rounds.items()
        if "peak_anonymous_bytes" in results[0]
    }
    for name, ratio in ratios.items():
        print(f"{name:<36}{ratio:6.2f}")
    return {
        "source_bytes": source.stat().st_size,
        "seconds": seconds,
        "median_seconds": medians,
        "ratios": ratios,
        "peak_anonymous_bytes": memory,
        "origin": describe_origin(),
    }


if __name__ == "__main__":
    command.run(main)
