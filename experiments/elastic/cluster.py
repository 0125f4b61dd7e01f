"""Run training on several emulated nodes, and read from its output how it recovers."""

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
PATIENCE = 600.0  # longest wait, in seconds; the machine may have other work
POLL = 0.05
STARTED = re.compile(r"lanes on (\d+) x .* from step ([\d,]+)\n")
ROW = re.compile(rb'^{"step": (\d+),.*}$', re.MULTILINE)
TAIL = 4096  # bytes at the end of metrics.jsonl that hold some rows
STEP = re.compile(r"^step +(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class Recovery:
    """How training recovered from a fault."""

    seconds: float  # from the fault to the end of the first new step
    ranks: int
    resumed_from: int
    reached: int  # last step before the fault

    @property
    def steps_lost(self) -> int:
        """The number of steps that are computed again."""
        return self.reached - self.resumed_from


@dataclass
class Cluster:
    """Launchers of one command, one for each node; they meet at the first node."""

    nodes: list[Node]
    folder: Path  # for their output
    command: list[str]  # main.py and its options
    metrics: Path  # has a row for every step
    workers: int = 2  # of each node
    launchers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)

    def start(self, *numbers: int) -> None:
        """Start the launchers of these nodes, as a scheduler does when nodes become available."""
        for number in numbers:
            node = self.nodes[number]
            environment = {
                **os.environ,
                "PYTHON": sys.executable,
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
                # All namespaces have one host name, so torch cannot tell who hosts the store.
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
        """Send SIGTERM to the launchers of these nodes."""
        for number in numbers:
            self.launchers[number].send_signal(signal.SIGTERM)

    def await_end(self, *numbers: int) -> list[int]:
        """Wait until the launchers have ended; return their exit codes."""
        return [self.launchers[number].wait(PATIENCE) for number in numbers]

    def said(self) -> dict[Path, str]:
        """Return the output so far of each launcher and its ranks."""
        return {log: log.read_text(errors="replace") for log in self.logs}

    def step(self) -> int:
        """Return the step of the last row of metrics."""
        if not self.metrics.exists():
            return 0
        steps = ROW.findall(self.metrics.read_bytes()[-TAIL:])
        return int(steps[-1]) if steps else 0

    def await_steps(self, count: int) -> None:
        """Wait for so many more steps; raise InputError if they do not come."""
        target = self.step() + count
        self._await(lambda: self.step() >= target, f"step {target}")

    def mark(self) -> dict[Path, int]:
        """Return the present length of each launcher's output."""
        return {log: len(text) for log, text in self.said().items()}

    def starts(self) -> int:
        """Return how often the run has started training."""
        return sum(len(STARTED.findall(text)) for text in self.said().values())

    def recovery(self, mark: dict[Path, int], begun: float, ranks: int | None = None) -> Recovery:
        """Wait until the run has restarted since `mark` and trains on so many ranks, or on any.

        begun: the moment of the fault.
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
        """Yield the restarts since `mark`, on so many ranks, that have finished a step."""
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
