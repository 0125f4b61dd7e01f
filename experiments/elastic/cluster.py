"""A run on several nodes of one machine, and what it says while things happen to it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from model.errors import InputError

from ..emulation.network import Node

ROOT = Path(__file__).resolve().parent.parent.parent
PORT = 29500
PATIENCE = 600.0  # seconds in which a machine with other work does anything asked of it here
POLL = 0.05
STARTED = re.compile(r"lanes on (\d+) x .* from step ([\d,]+)\n")
ROW = re.compile(rb'^{"step": (\d+),.*}$', re.MULTILINE)
TAIL = 4096  # bytes, some rows
STEP = re.compile(r"^step +(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class Recovery:
    """Training after something happened."""

    seconds: float  # since then, until the first new step was through
    ranks: int
    resumed_from: int
    reached: int  # the last step before

    @property
    def steps_lost(self) -> int:
        """Return how many steps are computed anew."""
        return self.reached - self.resumed_from


@dataclass
class Cluster:
    """Launchers, one a node, of the same command; the first node is the meeting place."""

    nodes: list[Node]
    folder: Path  # of what they say
    command: list[str]  # main.py and its options
    metrics: Path  # a row for every step
    workers: int = 2  # of each node
    launchers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)

    def start(self, *numbers: int) -> None:
        """Start the launchers of these nodes, as a scheduler does when they are there (again)."""
        for number in numbers:
            node = self.nodes[number]
            environment = {
                **os.environ,
                "PYTHON": sys.executable,
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
                # Namespaces share a host's name, by which the host of the store would be found.
                "PET_RDZV_CONF": f"is_host={int(number == 0)}",
            }
            self.logs.append(self.folder / f"{len(self.logs):02}-node{number}.log")
            with open(self.logs[-1], "wb") as log:
                self.launchers[number] = subprocess.Popen(
                    node.within("bash", "scripts/elastic.sh", *self._options(node), *self.command),
                    cwd=ROOT,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def _options(self, node: Node) -> list[str]:
        return [
            *("--nnodes", f"1:{len(self.nodes)}", "--nproc-per-node", str(self.workers)),
            *("--rdzv-endpoint", f"{self.nodes[0].address}:{PORT}", "--rdzv-id", "faults"),
            *("--local-addr", node.address),
        ]

    def workers_of(self, number: int) -> list[int]:
        """Return the process ids of a node's ranks."""
        launcher = self.launchers[number].pid
        return list(
            map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split())
        )

    def terminate(self, *numbers: int) -> None:
        """Send SIGTERM to the launchers of nodes that are taken away."""
        for number in numbers:
            self.launchers[number].send_signal(signal.SIGTERM)

    def await_end(self, *numbers: int) -> list[int]:
        """Wait until the launchers have ended; return their exit codes."""
        return [self.launchers[number].wait(PATIENCE) for number in numbers]

    def said(self) -> dict[Path, str]:
        """Return what each launcher and its ranks have said so far."""
        return {log: log.read_text(errors="replace") for log in self.logs}

    def step(self) -> int:
        """Return the step of the last row of metrics."""
        if not self.metrics.exists():
            return 0
        steps = ROW.findall(self.metrics.read_bytes()[-TAIL:])
        return int(steps[-1]) if steps else 0

    def await_steps(self, count: int) -> None:
        """Wait for so many more steps; a run that stands still is an error."""
        target = self.step() + count
        self._await(lambda: self.step() >= target, f"step {target}")

    def mark(self) -> dict[Path, int]:
        """Return how far each launcher's output is now."""
        return {log: len(text) for log, text in self.said().items()}

    def starts(self) -> int:
        """Return how often the run has started training so far."""
        return sum(len(STARTED.findall(text)) for text in self.said().values())

    def recovery(self, mark: dict[Path, int], begun: float, ranks: int | None = None) -> Recovery:
        """Wait until the run, started anew since `mark`, trains on so many ranks, or on any.

        begun: when that happened which it recovers from.
        """
        found: list[Recovery] = []

        def trains() -> bool:
            found.extend(self._recoveries(mark, begun, ranks))
            return bool(found)

        self._await(trains, f"training on {ranks or 'any'} ranks")
        return found[0]

    def _recoveries(
        self, mark: dict[Path, int], begun: float, ranks: int | None
    ) -> Iterator[Recovery]:
        """Yield the starts since `mark`, on so many ranks, that have got through a step."""
        texts = self.said()
        for log, text in texts.items():
            for match in STARTED.finditer(text, mark.get(log, 0)):
                count, step = (int(part.replace(",", "")) for part in match.groups())
                if ranks in (None, count) and STEP.search(text, match.end()):
                    earlier = [other for name, other in texts.items() if name != log]
                    earlier.append(text[: match.start()])
                    steps = [int(row) for part in earlier for row in STEP.findall(part)]
                    yield Recovery(time.monotonic() - begun, count, step, max(steps, default=0))

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise InputError(f"no {what} within {PATIENCE:.0f} s; see {self.folder}")
            time.sleep(POLL)
