"""All nodes' ranks, from outside: started once, then asked for one thing after another."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from experiments.network import Node, Unavailable, nodes
from model.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent.parent
FIRST_PORT = 29400


class Ranks:
    """One rank in each namespace; the first so many of them work together."""

    def __init__(self, laid: Sequence[Node], rate: str):
        self.laid, self.rate = laid, rate
        self.port = FIRST_PORT
        self.processes = [start(node, laid[0].address) for node in laid]

    @property
    def ids(self) -> list[int]:
        """Return the process ids."""
        return [process.pid for process in self.processes]

    def take(self, cases: Sequence[dict[str, Any]], count: int) -> list[list[dict[str, float]]]:
        """Return every turn of each case, on the first `count` ranks."""
        self.port += 1  # the one before may not be free yet
        line = json.dumps({"ranks": count, "port": self.port, "cases": list(cases)}) + "\n"
        with suppress(BrokenPipeError):  # of a rank that is gone: the first one notices, too
            for process in self.processes[:count]:
                assert process.stdin is not None
                process.stdin.write(line)
                process.stdin.flush()
        output = self.processes[0].stdout
        assert output is not None
        answer = output.readline()
        if not answer:
            raise InputError("a rank failed; what it said stands above")
        rows: list[list[dict[str, float]]] = json.loads(answer)
        return rows

    @contextmanager
    def unlimited(self, count: int) -> Iterator[None]:
        """Take the limits off the first links for a while."""
        for node in self.laid[:count]:
            node.limit(None)
        yield
        for node in self.laid[:count]:
            node.limit(self.rate)

    def close(self) -> None:
        """End all ranks, whatever they are at."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            with suppress(BrokenPipeError), process:  # closes its streams and waits
                pass


@contextmanager
def emulated_nodes(count: int, rate: str) -> Iterator[Ranks]:
    """Lay nodes and start their ranks; nothing of them is left afterwards, whatever happens.

    Raises InputError where this machine cannot have them.
    """
    try:
        with nodes(count, rate) as laid, closing(Ranks(laid, rate)) as ranks:
            yield ranks
    except Unavailable as error:
        raise InputError(f"no network to emulate a cluster on: {error}") from error


def start(node: Node, first: str) -> "subprocess.Popen[str]":
    """Start a node's rank; first: the address of the first node."""
    environment = {
        **os.environ,
        "RANK": str(node.number),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": first,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # it warns that addresses have no names
    }
    return subprocess.Popen(
        node.within(sys.executable, "-m", "experiments.scaling.emulation.rank"),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if node.number == 0 else subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for the one that measures; it ends these
    )
