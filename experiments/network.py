"""Nodes on one machine: network namespaces on a bridge, each link limited to a rate."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

BURST, LIMIT = "64kb", "4mb"  # of the token bucket that limits a link


class Unavailable(Exception):
    """This machine cannot lay such a network; the message says why."""


@contextmanager
def nodes(count: int, rate: str) -> Iterator[list[str]]:
    """Lay namespaces whose links send at `rate` (as tc writes it, `100mbit`); yield their names.

    Addresses are 10.77.0.1 and on, the interface is eth0. All of it is gone afterwards. Raises
    Unavailable without root, without ip and tc, or where the kernel lacks what they need.
    """
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} here (iproute2)")
    if os.geteuid():
        raise Unavailable("network namespaces need root")
    tag = uuid.uuid4().hex[:6]
    names = [f"mlstm{tag}n{number}" for number in range(count)]
    bridge = f"br{tag}"
    try:
        _run(f"ip link add {bridge} type bridge")
        _run(f"ip link set {bridge} up")
        for number, name in enumerate(names):
            _lay_node(number, name, bridge, f"v{tag}{number}", rate)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        subprocess.run(["ip", "link", "delete", bridge], capture_output=True)


def address(number: int) -> str:
    """Return a node's address."""
    return f"10.77.0.{number + 1}"


def _lay_node(number: int, name: str, bridge: str, link: str, rate: str) -> None:
    _run(f"ip netns add {name}")
    _run(f"ip link add {link} type veth peer name eth0 netns {name}")
    _run(f"ip link set {link} master {bridge} up")
    inside = f"ip netns exec {name}"
    _run(f"{inside} ip address add {address(number)}/24 dev eth0")
    _run(f"{inside} ip link set eth0 up")
    _run(f"{inside} ip link set lo up")
    # Only what leaves is limited; both directions of a full-duplex link follow from that.
    _run(f"{inside} tc qdisc add dev eth0 root tbf rate {rate} burst {BURST} limit {LIMIT}")


def _run(command: str) -> None:
    process = subprocess.run(command.split(), capture_output=True, text=True)
    if process.returncode:
        raise Unavailable(f"{command}: {process.stderr.strip()}")
