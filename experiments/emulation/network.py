"""Nodes on one machine: network namespaces on a bridge, each link limited to a rate."""

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

BURST, LIMIT = "40kb", "4mb"  # of the token bucket that limits a link
SEGMENT = 32768  # bytes that TCP hands over at once: they fit into the bucket, and stay whole
RETRIES = 8  # of TCP, 100 s; with the kernel's 15 a cut connection lasts a quarter of an hour
FILES = Path("/etc/netns")  # what `ip netns exec` shows a namespace in place of files in /etc
# Waits for the end of its input, which comes with that of the process that laid all this.
REMOVAL = """
cat; files=$1 bridge=$2; shift 2
for name; do
    ip netns pids "$name" | xargs -r kill -9
    ip netns delete "$name"
    rm -rf "$files/$name"
done
ip link delete "$bridge"
rmdir "$files"
"""


class Unavailable(Exception):
    """This machine cannot lay such a network; the message says why."""


@dataclass(frozen=True)
class Node:
    """A namespace with one link, eth0."""

    number: int
    name: str
    link: str  # the end on the bridge

    @property
    def address(self) -> str:
        """Return its address."""
        return f"10.77.0.{self.number + 1}"

    def within(self, *command: str) -> list[str]:
        """Return the command that runs a command in it."""
        return ["ip", "netns", "exec", self.name, *command]

    def limit(self, rate: str | None) -> None:
        """Let the link send at another rate, or as fast as the machine can."""
        change = f"replace {_bucket('eth0', rate)}" if rate else "delete dev eth0 root"
        _run(f"{' '.join(self.within())} tc qdisc {change}")

    def unplug(self) -> None:
        """Take the link down: what is sent gets lost, and nobody is told."""
        _run(f"ip link set {self.link} down")

    def plug(self) -> None:
        """Take the link up again."""
        _run(f"ip link set {self.link} up")

    def processes(self) -> list[int]:
        """Return the ids of all processes in it."""
        command = ["ip", "netns", "pids", self.name]
        return list(map(int, subprocess.run(command, capture_output=True).stdout.split()))

    def kill(self) -> None:
        """Kill all processes in it at once."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@contextmanager
def nodes(count: int, rate: str, *, loopback: bool = False) -> Iterator[list[Node]]:
    """Lay namespaces whose links send at `rate` (as tc writes it, `100mbit`).

    Addresses are 10.77.0.1 and on. loopback: what a node sends to itself is limited as well. All
    of it is gone afterwards, processes in it too, also where this one is killed. Raises
    Unavailable without root, without ip and tc, or where the kernel lacks what they need.
    """
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} here (iproute2)")
    if os.geteuid():
        raise Unavailable("network namespaces need root")
    tag = uuid.uuid4().hex[:6]
    laid = [Node(number, f"mlstm{tag}n{number}", f"v{tag}{number}") for number in range(count)]
    bridge = f"br{tag}"
    with _removed_in_the_end(bridge, [node.name for node in laid]):
        _run(f"ip link add {bridge} type bridge")
        _run(f"ip link set {bridge} up")
        for node in laid:
            _name_all(node, laid)
            _lay(node, bridge, {"eth0": rate, **({"lo": rate} if loopback else {})})
        yield laid


@contextmanager
def _removed_in_the_end(bridge: str, names: list[str]) -> Iterator[None]:
    """Have another process remove what these name when this one leaves, or dies."""
    command = ["sh", "-c", REMOVAL, "sh", str(FILES), bridge, *names]
    remover = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert remover.stdin is not None
    try:
        yield
    finally:
        remover.stdin.close()
        remover.wait()


def _name_all(node: Node, laid: list[Node]) -> None:
    """Give addresses names: without, every look-up waits for a server that is not there."""
    names = [f"{other.address} {other.name}\n" for other in laid]
    (FILES / node.name).mkdir(parents=True)
    (FILES / node.name / "hosts").write_text("127.0.0.1 localhost\n" + "".join(names))


def _lay(node: Node, bridge: str, rates: dict[str, str]) -> None:
    _run(f"ip netns add {node.name}")
    _run(f"ip link add {node.link} type veth peer name eth0 netns {node.name}")
    _run(f"ip link set {node.link} master {bridge} up")
    inside = " ".join(node.within())
    _run(f"{inside} ip address add {node.address}/24 dev eth0")
    _run(f"{inside} ip link set eth0 gso_max_size {SEGMENT} up")
    _run(f"{inside} ip link set lo mtu 1500 gso_max_size {SEGMENT} up")
    _run(f"{inside} sysctl -w net.ipv4.tcp_retries2={RETRIES}")
    for device, rate in rates.items():
        # Only what leaves is limited; both directions of a full-duplex link follow from that.
        _run(f"{inside} tc qdisc add {_bucket(device, rate)}")


def _bucket(device: str, rate: str) -> str:
    return f"dev {device} root tbf rate {rate} burst {BURST} limit {LIMIT}"


def _run(command: str) -> None:
    process = subprocess.run(command.split(), capture_output=True, text=True)
    if process.returncode:
        raise Unavailable(f"{command}: {process.stderr.strip()}")
