"""Train by main.py in a process of its own."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.options import TOUR
from training.runs.run_directory import read_rows

ROOT = Path(__file__).resolve().parents[3]
EVALUATIONS = 4  # per run
GRACE = 30.0  # seconds that a launcher has to end its ranks
RANKS_HERE = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
# A message of a rank or a program; the last line of a traceback; torchrun's line on a killed rank.
ERRORS = (
    r"(?:\[rank \d+\] |.*: )?error: (.*)",
    r"(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception)\b.*)",
    r"traceback : (Signal \d+ .*)",
)
# Consequences of another rank's error: its peers' messages, and torchrun's when it ends them.
CONSEQUENCES = ("lost a peer", "torch.distributed.elastic", "Signal 15 ")


@dataclass(frozen=True)
class Recipe:
    """One run: the number of characters that it reads, and the keys of its config."""

    name: str
    characters: int
    keys: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Number of updates that read the characters."""
        windows = self.keys.get("parallel.windows_per_step", 1)
        of_a_step = self.keys["data.lanes"] * self.keys["data.window"] * windows
        return round(self.characters / of_a_step)

    def arguments(self, corpus: Path | None, folder: Path) -> list[str]:
        """Return the command line after `python`; without a corpus, of the embedded one."""
        steps = self.steps
        keys = {
            **({"data.corpus": corpus} if corpus else {}),
            "train.steps": steps,
            "evaluate.every_steps": -(-steps // EVALUATIONS),
            "log.every_steps": max(1, steps // 40),
            "checkpoint.every_steps": -(-steps // EVALUATIONS),
            "evaluate.lanes": 32,
            **self.keys,
        }
        words = ["main.py", "--run-dir", str(folder.resolve())]  # from the root of the repository
        if (cap := keys.pop("parallel.bucket_cap_mb", None)) is not None:  # not on a command line
            config = folder.resolve().with_suffix(".toml")
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(f"{TOUR.read_text()}\n[parallel]\nbucket_cap_mb = {cap}\n")
            words += ["--config", str(config)]
        return words + [word for key, value in keys.items() for word in (f"--{key}", str(value))]


def run_to_end(
    words: Sequence[str], threads: int, timeout: float | None = None, grace: float = GRACE
) -> str | None:
    """Run a training command; return None, or in one line why it failed.

    All its processes have ended afterwards, also after Ctrl-C or after `timeout` seconds.
    """
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # one group, which a signal ends as a whole
    )
    try:
        _, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"took longer than {timeout:g} s"
    finally:
        end(process, grace)
        assert process.stderr is not None
        process.stderr.close()
    if process.returncode == 0:
        return None
    return reason_in(stderr) or f"exit code {process.returncode}"


def reason_in(text: str) -> str:
    """Return the first error that is a cause; else the first error, else the last line.

    An empty text gives an empty reason.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [match[1] for line in lines for error in ERRORS if (match := re.match(error, line))]
    causes = [reason for reason in errors if not reason.startswith(CONSEQUENCES)]
    return next(iter([*causes, *errors, *lines[-1:]]), "")


def end(process: "subprocess.Popen[str]", grace: float = GRACE) -> None:
    """End a command that still runs; a launcher has `grace` seconds to end its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics that a run has written."""
    path = folder / "metrics.jsonl"
    return list(read_rows(path)) if path.exists() else []
