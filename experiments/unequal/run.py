"""Unequal machines: two ranks, one of them throttled, with even and with measured shares.

python -m experiments.unequal.run --corpus data/reviews \\
    --output experiments/unequal/results/throttled.json

Linux alone, as root: the second rank runs in a cgroup whose quota leaves it a part of its core.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.failure import reason_in
from model.errors import InputError
from model.files.storage import write_json
from training.metrics import read_rows

ROOT = Path(__file__).resolve().parents[2]
CGROUPS = Path("/sys/fs/cgroup")
PERIOD = 10_000  # microseconds: short beside a step, so that a throttled rank is evenly slow
WAYS = ("even", "measured")
KEYS = {
    "model.hidden_size": 256,
    "data.lanes": 128,
    "data.window": 64,
    "train.precision": "fp32",
    "log.every_steps": 10,
    "evaluate.every_steps": 1000,
    "checkpoint.every_steps": 20,  # where measured shares are settled anew
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train with two ranks, the second on a part of a core; the ways to share take turns."""

    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    output: Path
    """The JSON file to write."""
    parts: tuple[float, ...] = (1.0, 0.5, 0.25)
    """What the second rank has of its core."""
    steps: int = 120
    """Updates of a run; speeds are those of its second half."""
    rounds: int = 3
    """How often every case has its turn."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    if len(os.sched_getaffinity(0)) < 2:
        raise InputError("two cores are needed, one for each rank")
    runs = []
    for turn in range(options.rounds):
        runs.append({"ranks": 1, **speed_of(options, [1.0], "even")})
        for part in options.parts:
            for way in WAYS:
                runs.append({"part": part, "way": way, **speed_of(options, [1.0, part], way)})
                print(f"turn {turn + 1}: {part:g} of a core, {way}: {runs[-1]}", flush=True)
    settings = {**asdict(options), "corpus": None, "output": None}
    write_json(
        options.output,
        {"settings": settings, "keys": KEYS, "runs": runs, "origin": describe_origin()},
    )


def speed_of(options: Options, parts: Sequence[float], way: str) -> dict[str, Any]:
    """Return the characters a second of a run whose ranks have these parts of a core each."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        keys = {
            **KEYS,
            "data.corpus": options.corpus.resolve(),
            "train.steps": options.steps,
            "parallel.shares": way,
        }
        pairs = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
        program = [sys.executable, "main.py", "--run-dir", str(run), *pairs]
        launch(program, parts)
        rows = [row for row in read_rows(run / "metrics.jsonl") if "characters_per_second" in row]
    late = [row for row in rows if row["step"] > options.steps / 2]
    return {
        "characters_per_second": statistics.median(row["characters_per_second"] for row in late),
        "rank_characters_per_second": late[-1].get("rank_characters_per_second"),
        "bottleneck": late[-1]["bottleneck"],
    }


def launch(program: Sequence[str], parts: Sequence[float]) -> None:
    """Run a program once for each rank, each on its own core; InputError where one fails."""
    port, cores = free_port(), sorted(os.sched_getaffinity(0))
    ranks = []
    with cgroups(parts) as folders:
        for rank, folder in enumerate(folders):
            world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(parts)}
            where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
            given = {name: str(value) for name, value in {**world, **where}.items()}
            enter = f"echo $$ > {folder}/cgroup.procs && " if folder else ""
            shell = f'{enter}exec taskset -c {cores[rank]} "$@"'
            ranks.append(
                subprocess.Popen(
                    ["sh", "-c", shell, "sh", *program],
                    cwd=ROOT,
                    env={**os.environ, **(given if len(parts) > 1 else {"OMP_NUM_THREADS": "1"})},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        errors = [rank.communicate()[1] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise InputError(f"a run failed: {reason_in(''.join(errors))}")


@contextmanager
def cgroups(parts: Sequence[float]) -> Iterator[list[Path | None]]:
    """Make a cgroup for every part below 1, with that much of a core; remove them in the end."""
    mount = CGROUPS / "cpu" if (CGROUPS / "cpu").is_dir() else CGROUPS
    folders: list[Path | None] = []
    try:
        for rank, part in enumerate(parts):
            folder = None
            if part < 1:
                folder = mount / f"mlstm_unequal_{os.getpid()}_{rank}"
                folder.mkdir()
                limit(folder, part)
            folders.append(folder)
        yield folders
    except OSError as error:
        raise InputError(f"no cgroup can be made ({error}); it takes Linux, and root") from error
    finally:
        for folder in folders:
            if folder is not None and folder.is_dir():
                folder.rmdir()


def limit(folder: Path, part: float) -> None:
    """Leave a cgroup of either version this part of a core."""
    quota = round(part * PERIOD)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota} {PERIOD}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    command.run(main)
