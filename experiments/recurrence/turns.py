"""Time several checkouts of this project against each other by turns, each in its own process.

git worktree add /tmp/old 6df937c
python -m experiments.recurrence.turns /tmp/old . --hidden-size 1024 --output turns.json
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from configs import command
from data_utils.provenance import describe_origin, git_revision
from model.bounds import PositiveInt, check_bounds
from model.errors import InputError

# Run in a checkout, whose own modules are found first.
SERVE = "import sys; sys.path.append(sys.argv.pop(1)); import serving; serving.main(*sys.argv[1:])"


@dataclass(frozen=True, kw_only=True)
class TurnsOptions:
    """Which checkouts, and what they compute."""

    checkouts: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of the project at different revisions, the first for comparison. Outside of git a
    folder's name stands for its revision."""
    piece: Literal["step", "recurrence", "inference"] = "step"
    """A training step with Muon, or a window of the recurrence, forward and backward or forward."""
    hidden_size: PositiveInt = 1024
    """H, units."""
    batch: PositiveInt = 128
    """B, lanes."""
    window: PositiveInt = 128
    """T, bytes per lane."""
    embedding_size: PositiveInt = 64
    """E, width of the recurrence's input."""
    dtype: Literal["fp32", "bf16"] = "bf16"
    """Dtype of the products."""
    threads: PositiveInt = 2
    """CPU threads of each. A GPU is not used."""
    rounds: PositiveInt = 7
    """Rounds; in each, every checkout does everything once."""
    output: Path | None = None
    """JSON file for the result."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")
        if not self.checkouts:
            raise InputError("name one checkout or more: folders of this project at a revision")

    def arguments(self) -> tuple[str, str]:
        """Return what `serving.py` is told."""
        names = ("hidden_size", "batch", "window", "dtype", "threads")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["device"] = "cpu"  # also where there is a GPU
        if self.piece != "step":
            given["embedding_size"] = self.embedding_size
            given["inference"] = self.piece == "inference"
        return self.piece, json.dumps(given)


class Served:
    """A checkout's process, which works only when asked to."""

    def __init__(self, revision: str, process: subprocess.Popen[str]):
        self.revision, self.process = revision, process
        self.pieces: list[str] = json.loads(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise InputError(f"the process of {self.revision} ended early; its error is above")
        return line

    def seconds(self, piece: str) -> float:
        """Do a piece of work once."""
        assert self.process.stdin is not None
        print(piece, file=self.process.stdin, flush=True)
        return float(self._answer())


@contextmanager
def serve(checkout: Path, arguments: tuple[str, str]) -> Iterator[Served]:
    """Start a checkout's process, and let it end afterwards."""
    known = git_revision(checkout)
    revision = known if known != "unknown" else checkout.resolve().name
    found = [str(checkout.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(Path(__file__).parent), *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(found)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Served(revision, process)


def measure(options: TurnsOptions) -> dict[str, Any]:
    """Return each piece's seconds by checkout, and how many times as fast as the first each is."""
    with ExitStack() as processes:
        arguments = options.arguments()
        served = [
            processes.enter_context(serve(checkout, arguments)) for checkout in options.checkouts
        ]
        seconds = take_turns(served, options.rounds)
    items = options.batch * options.window
    return {
        "piece": options.piece,
        "pieces": {
            piece: [
                summary(one.revision, times, found[0], items)
                for one, times in zip(served, found, strict=True)
            ]
            for piece, found in seconds.items()
        },
        "arguments": json.loads(arguments[1]),
        "origin": describe_origin(),
    }


def take_turns(served: Sequence[Served], rounds: int) -> dict[str, list[list[float]]]:
    """Return by piece the seconds of each process in each round, which another one begins."""
    pieces = [piece for piece in served[0].pieces if all(piece in one.pieces for one in served)]
    seconds: dict[str, list[list[float]]] = {piece: [[] for _ in served] for piece in pieces}
    for turn in range(rounds):
        for piece in pieces:
            for number in range(len(served)):
                at = (turn + number) % len(served)
                seconds[piece][at].append(served[at].seconds(piece))
    return seconds


def summary(revision: str, times: list[float], first: list[float], items: int) -> dict[str, Any]:
    """Return characters per second, and the speed over the first checkout's, round by round."""
    ratios = sorted(a / b for a, b in zip(first, times, strict=True))
    return {
        "revision": revision,
        "chars_per_second": items / statistics.median(times),
        "speed_over_first": statistics.median(ratios),
        "range": [ratios[0], ratios[-1]],
        "seconds": times,
    }


def main() -> None:
    options = command.parse(TurnsOptions, __doc__)
    command.prepare_output(options.output)
    result = measure(options)
    for piece, found in result["pieces"].items():
        for one in found:
            low, high = one["range"]
            print(
                f"{piece:<20} {one['revision']:<20} {one['chars_per_second']:>12,.0f} characters/s"
                f" {one['speed_over_first']:8.2f} ({low:.2f} to {high:.2f})"
            )
    command.report(result, options.output)


if __name__ == "__main__":
    command.run(main)
