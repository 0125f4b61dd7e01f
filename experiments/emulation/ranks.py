"""Start one rank on each emulated node, and ask the ranks for one measurement after another."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from model.errors import InputError

from .network import Node, Unavailable, nodes

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST_PORT = 29400
Turn = dict[str, float]  # what one turn of a case measured: see rank.py


class Ranks:
    """One rank on each node; a measurement uses the first few of them."""

    def __init__(self, laid: Sequence[Node], rate: str):
        self.laid, self.rate = laid, rate
        self.port = FIRST_PORT
        self.processes = [start(node, laid[0].address) for node in laid]

    @property
    def ids(self) -> list[int]:
        """The process ids."""
        return [process.pid for process in self.processes]

    def take(self, cases: Sequence[dict[str, Any]], count: int) -> list[list[Turn]]:
        """Measure cases in turns on the first `count` ranks; return the turns of each case."""
        self.port += 1  # the system may not have freed the last port yet
        line = json.dumps({"ranks": count, "port": self.port, "cases": list(cases)}) + "\n"
        with suppress(BrokenPipeError):  # a rank has ended: the first rank will end, too
            for process in self.processes[:count]:
                assert process.stdin is not None
                process.stdin.write(line)
                process.stdin.flush()
        output = self.processes[0].stdout
        assert output is not None
        answer = output.readline()
        if not answer:
            raise InputError("a rank failed; its message stands above")
        rows: list[list[Turn]] = json.loads(answer)
        return rows

    @contextmanager
    def unlimited(self, count: int) -> Iterator[None]:
        """Remove the limits of the first links for a while."""
        for node in self.laid[:count]:
            node.limit(None)
        yield
        for node in self.laid[:count]:
            node.limit(self.rate)

    def close(self) -> None:
        """End all ranks at once."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            with suppress(BrokenPipeError), process:  # closes the pipes and waits
                pass


@contextmanager
def emulated_nodes(count: int, rate: str) -> Iterator[Ranks]:
    """Create nodes with links of this rate, and start their ranks; remove all of it in the end.

    Raises InputError where this machine cannot create them.
    """
    try:
        with nodes(count, rate) as laid, closing(Ranks(laid, rate)) as ranks:
            yield ranks
    except Unavailable as error:
        raise InputError(f"cannot emulate a network here: {error}") from error


def start(node: Node, first: str) -> "subprocess.Popen[str]":
    """Start the rank of a node; first: the address of the first node."""
    environment = {
        **os.environ,
        "RANK": str(node.number),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": first,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # torch would warn that addresses have no names
    }
    return subprocess.Popen(
        node.within(sys.executable, "-m", "experiments.emulation.rank"),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if node.number == 0 else subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C reaches the command that measures, which ends the ranks
    )
