"""The faults that a run on two nodes should survive, and how to cause them."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .cluster import Cluster

BOTH = (0, 1)
GLITCH = 5.0  # seconds without a link; TCP survives them


@dataclass(frozen=True)
class Fault:
    """A fault that a run should survive."""

    name: str
    make: Callable[[Cluster], dict[str, Any]]
    """Causes it in a cluster that works, and returns what was measured."""


def worker_killed(number: int, sent: signal.Signals) -> Callable[[Cluster], dict[str, Any]]:
    """Send a signal to one rank of a node."""

    def make(cluster: Cluster) -> dict[str, Any]:
        worker = cluster.workers_of(number)[-1]
        return measured(cluster, lambda: os.kill(worker, sent), whole=len(BOTH))

    return make


def node_lost(cluster: Cluster) -> dict[str, Any]:
    """Kill everything on the second node at once."""
    return measured(cluster, cluster.nodes[1].kill, whole=1)


def node_back(cluster: Cluster) -> dict[str, Any]:
    """Start the second node's launcher again."""
    return measured(cluster, lambda: cluster.start(1), whole=len(BOTH))


def node_preempted(cluster: Cluster) -> dict[str, Any]:
    """Send SIGTERM to the second node's launcher."""
    row = measured(cluster, lambda: cluster.terminate(1), whole=1)
    return {**row, "launcher_exit_codes": cluster.await_end(1)}


def all_preempted(cluster: Cluster) -> dict[str, Any]:
    """Send SIGTERM to both launchers, and start both again when they have ended."""
    begun = time.monotonic()
    cluster.terminate(*BOTH)
    codes = cluster.await_end(*BOTH)
    saved = time.monotonic() - begun
    row = measured(cluster, lambda: cluster.start(*BOTH), whole=len(BOTH), begun=begun)
    return {**row, "seconds_until_ended": saved, "launcher_exit_codes": codes}


def link_glitch(cluster: Cluster) -> dict[str, Any]:
    """Take the second node's link down for a moment; the run should not restart."""
    begun, starts = time.monotonic(), cluster.starts()
    cluster.nodes[1].unplug()
    time.sleep(GLITCH)
    cluster.nodes[1].plug()
    cluster.await_steps(1)
    seconds = time.monotonic() - begun
    return {"seconds": seconds, "steps_lost": 0, "starts": cluster.starts() - starts}


def link_down(cluster: Cluster) -> dict[str, Any]:
    """Take the second node's link down for good; its launcher ends when TCP gives up."""
    begun = time.monotonic()
    row = measured(cluster, cluster.nodes[1].unplug, whole=1)
    codes = cluster.await_end(1)
    ended = time.monotonic() - begun
    return {**row, "seconds_until_ended": ended, "launcher_exit_codes": codes}


def link_back(cluster: Cluster) -> dict[str, Any]:
    """Take the link up, and start the node's launcher again."""
    cluster.nodes[1].plug()
    return node_back(cluster)


def first_node_lost(cluster: Cluster) -> dict[str, Any]:
    """Kill the node of the rendezvous: the other ends too, and the scheduler starts both again."""
    begun = time.monotonic()
    cluster.nodes[0].kill()
    codes = cluster.await_end(1)
    ended = time.monotonic() - begun
    row = measured(cluster, lambda: cluster.start(*BOTH), whole=len(BOTH), begun=begun)
    return {**row, "seconds_until_ended": ended, "launcher_exit_codes": codes}


def measured(
    cluster: Cluster, cause: Callable[[], object], whole: int, begun: float | None = None
) -> dict[str, Any]:
    """Return how training recovered, first on any ranks, then on all ranks of `whole` nodes."""
    begun = time.monotonic() if begun is None else begun
    mark = cluster.mark()
    cause()
    ranks = whole * cluster.workers
    first = cluster.recovery(mark, begun)
    last = first if first.ranks == ranks else cluster.recovery(mark, begun, ranks)
    return {
        "seconds": first.seconds,
        "ranks": first.ranks,
        "steps_lost": first.steps_lost,
        "seconds_until_whole": last.seconds,
        "ranks_in_the_end": last.ranks,
        "resumed_from": first.resumed_from,
    }


FAULTS = [
    Fault("a worker killed (kill -9)", worker_killed(1, signal.SIGKILL)),
    Fault("a worker of the first node killed", worker_killed(0, signal.SIGKILL)),
    Fault("a worker stands still (SIGSTOP)", worker_killed(1, signal.SIGSTOP)),
    Fault("SIGTERM to one worker", worker_killed(1, signal.SIGTERM)),
    Fault("a node lost (kill -9 of all on it)", node_lost),
    Fault("the node comes back", node_back),
    Fault("SIGTERM to one node", node_preempted),
    Fault("that node comes back", node_back),
    Fault("a link down for 5 s", link_glitch),
    Fault("a link down for good", link_down),
    Fault("the link and its node come back", link_back),
    Fault("SIGTERM to all nodes, then started again", all_preempted),
    Fault("the first node lost, then both started again", first_node_lost),
]
