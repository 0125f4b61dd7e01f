"""A point started as ranks by torch.distributed.run, and ended with all of them."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.failure import reason_in
from model.errors import InputError

from .points import Point, Settings, arguments_of

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = ("-m", "experiments.scaling.measuring.rank")
ON_THIS_NODE = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "{per_node}")
GRACE = 30.0  # seconds that torchrun has to end its ranks


@dataclass(frozen=True)
class Launcher:
    """What starts a point's ranks, on one node or several."""

    folder: Path
    settings: Settings
    command: str | None  # absent, torch.distributed.run on this node
    ranks_per_node: int | None  # absent, all of them
    timeout: float  # seconds that a launch may take

    def __post_init__(self) -> None:
        if self.ranks_per_node is not None and self.ranks_per_node < 1:
            raise InputError(f"--ranks-per-node is {self.ranks_per_node}; at least 1")

    def check(self, points: Sequence[Point]) -> None:
        """Raise InputError where one of the points could not be started."""
        for point in points:
            self.words(point, 0)

    def words(self, point: Point, number: int) -> list[str]:
        """Return the command that starts a point's ranks, as launch `number`."""
        per_node = min(self.ranks_per_node or point.world, point.world)
        nodes, rest = divmod(point.world, per_node)
        if rest:
            raise InputError(f"{point.world} ranks do not make nodes of {per_node}")
        if nodes > 1 and self.command is None:
            raise InputError(f"{point.world} ranks are {nodes} nodes: say how with --launcher")
        start = shlex.split(self.command) if self.command else [sys.executable, *ON_THIS_NODE]
        facts = {"world": point.world, "nodes": nodes, "per_node": per_node, "number": number}
        try:
            start = [word.format(**facts) for word in start]
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join(f"{{{name}}}" for name in facts)
            raise InputError(f"--launcher {self.command}: {error!r}; known: {known}") from error
        output = ("--output", str(self.folder.resolve()))
        return [*start, *PROGRAM, *output, *arguments_of(point, self.settings)]

    def __call__(self, point: Point, number: int) -> str | None:
        """Run a point's ranks to their end; return why they failed, if they did."""
        log = self.folder / f"{point.name}.log"
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            code = run(self.words(point, number), self.timeout, said.fileno())
            if code == 0:
                log.unlink(missing_ok=True)
                return None
            said.seek(0)
            text = said.read()
        log.write_text(text, encoding="utf-8")
        if code is None:
            return f"took longer than {self.timeout:g} s"
        return reason_in(text) or f"ended with exit code {code} and without a word"


def run(command: Sequence[str], timeout: float, output: int) -> int | None:
    """Run a command to its end; return its exit code, None after `timeout` seconds.

    Nothing of it is left, whatever happens.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # ranks set their own; torchrun is silent
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # a group of its own, to be ended as one
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a launcher that still runs; it ends its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
