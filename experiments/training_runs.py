"""Train by main.py in a process of its own, and keep what the run learnt."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin, git_revision
from model.errors import InputError
from model.files.storage import read_json, step_of, write_json
from training.metrics import read_rows
from training.runs.named_checkpoints import whole_checkpoint
from training.runs.run_directory import PretrainingDirectory

ROOT = Path(__file__).resolve().parent.parent
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
    corpus: str = ""
    """A folder beside the corpus that the caller names, to read instead of it; if empty, none."""

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
        pairs = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
        return ["main.py", "--run-dir", str(folder), *pairs]


def measure(
    recipe: Recipe, corpus: Path, folder: Path, threads: int, ranks: int = 1
) -> dict[str, Any]:
    """Train one recipe; return what it learnt and the seconds of its training steps.

    A run that was interrupted, or failed, goes on, if its command, corpus and revision are the
    same. One that has ended begins again.
    """
    corpus = corpus.with_name(recipe.corpus) if recipe.corpus else corpus
    fingerprint = open_corpus(corpus).fingerprint
    begun = folder.with_name(f"{folder.name}.begun.json")
    asked = {
        "arguments": recipe.arguments(corpus.resolve(), folder),
        "ranks": ranks,
        "corpus": fingerprint,
        "revision": git_revision(),
    }
    if goes_on(folder, begun, asked):
        arguments = ["main.py", "--resume", str(folder)]
    else:
        arguments = begin(folder, begun, asked)
    launcher = (*RANKS_HERE, str(ranks)) if ranks > 1 else ()
    failure = run_to_end([sys.executable, *launcher, *arguments], threads)
    if failure is None:
        begun.unlink()
    rows = rows_of(folder)
    scores = [row["valid_bits_per_character"] for row in rows if "valid_bits_per_character" in row]
    result = {
        "name": recipe.name,
        "characters": recipe.characters,
        "keys": dict(recipe.keys),
        "corpus": recipe.corpus,
        "fingerprint": fingerprint,
        "characters_read": rows[-1]["characters"] if rows else 0,
        "valid_bits_per_character": scores[-1] if scores and not failure else None,
        "training_seconds": training_seconds(rows),
        "failure": [failure] if failure else [],
        "rows": rows,
        "origin": describe_origin(),
    }
    return json.loads(json.dumps(result))


def goes_on(folder: Path, begun: Path, asked: Mapping[str, Any]) -> bool:
    """Whether the folder has the run that is asked for, which was interrupted after it began."""
    has_begun = begun.is_file() and PretrainingDirectory(folder).config.is_file()
    return has_begun and read_json(begun) == asked


def begin(folder: Path, begun: Path, asked: Mapping[str, Any]) -> list[str]:
    """Remove another run from the folder, note what begins there, and return its arguments."""
    shutil.rmtree(folder, ignore_errors=True)
    begun.parent.mkdir(parents=True, exist_ok=True)
    write_json(begun, asked)
    arguments: list[str] = asked["arguments"]
    return arguments


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
        _, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"took longer than {timeout:g} s"
    finally:
        end(process, grace)
        assert process.stderr is not None
        process.stderr.close()
    if process.returncode == 0:
        return None
    return reason_in(said) or f"exit code {process.returncode}"


def reason_in(text: str) -> str:
    """Return the first error that is a cause; else the first error, else the last line.

    An empty text gives an empty reason.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [match[1] for line in lines for error in ERRORS if (match := re.match(error, line))]
    causes = [reason for reason in found if not reason.startswith(CONSEQUENCES)]
    return next(iter([*causes, *found, *lines[-1:]]), "")


def end(process: "subprocess.Popen[str]", grace: float = GRACE) -> None:
    """End a command that still runs; a launcher has `grace` seconds to end its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)


def weights_at_end(folder: Path) -> Path:
    """Return the model directory of a run's last step; its model/ is that of its best score.

    Raises InputError if the folder has no run that has ended.
    """
    run = PretrainingDirectory(folder)
    last = whole_checkpoint(run.checkpoints, None)
    settings = tomllib.loads(run.config.read_text()) if run.config.is_file() else {}
    if last is None or step_of(last) != settings.get("train", {}).get("steps"):
        raise InputError(f"{folder}: has no run that has ended; train it first")
    return last


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics that a run has written."""
    path = folder / "metrics.jsonl"
    return list(read_rows(path)) if path.exists() else []


def training_seconds(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of the steps, without those of evaluations and checkpoints."""
    befores = [0, *(row["characters"] for row in rows)]
    return sum(
        (row["characters"] - before) / row["characters_per_second"]
        for row, before in zip(rows, befores, strict=False)
    )
