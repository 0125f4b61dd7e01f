"""Nodes in namespaces are laid, and nothing of them is left, whatever happens."""

import subprocess
import sys
import time

import pytest

from experiments.emulation.network import BURST, FILES, SEGMENT, Unavailable, nodes
from tests.runs import ROOT


@pytest.fixture
def laid():
    """Two nodes; skips where there can be none."""
    try:
        with nodes(2, "100mbit", loopback=True) as laid:
            yield laid
    except Unavailable as error:
        pytest.skip(f"no network namespaces here: {error}")


def links():
    return subprocess.run(["ip", "link"], capture_output=True, text=True).stdout


def namespaces():
    return subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout


def test_nothing_is_left_after_an_error(laid):
    with pytest.raises(KeyboardInterrupt), nodes(1, "100mbit") as others:  # noqa: PT012
        (node,) = others
        process = subprocess.Popen(node.within("sleep", "60"))
        while not node.processes():
            pass
        raise KeyboardInterrupt
    assert process.wait(5) == -9
    assert node.name not in namespaces()
    assert node.link not in links()
    assert not (FILES / node.name).exists()
    for other in laid:  # somebody else's
        assert other.name in namespaces()


def test_nothing_is_left_of_a_process_that_is_killed(laid):
    code = (
        "import os, signal; from experiments.emulation.network import nodes\n"
        "with nodes(1, '100mbit') as (node,):\n"
        "    print(node.name, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == -9
    name = process.stdout.strip()
    deadline = time.monotonic() + 30
    while name in namespaces() or (FILES / name).exists():
        assert time.monotonic() < deadline
    assert all(other.name in namespaces() for other in laid)


def test_nodes_know_each_other_by_name(laid):
    process = subprocess.run(
        laid[0].within("getent", "hosts", laid[1].name), capture_output=True, text=True, timeout=5
    )
    assert process.stdout.split() == [laid[1].address, laid[1].name]


def test_a_link_is_limited_set_free_and_limited_again(laid):
    def said(*command):
        return subprocess.run(laid[0].within(*command), capture_output=True, text=True).stdout

    assert "tbf" in said("tc", "qdisc", "show", "dev", "eth0")
    # what TCP hands over at once fits into the bucket: cut up, it costs several times as much
    assert f"gso_max_size {SEGMENT}" in said("ip", "-details", "link", "show", "eth0")
    assert int(BURST.removesuffix("kb")) * 1024 > SEGMENT
    laid[0].limit(None)
    assert "tbf" not in said("tc", "qdisc", "show", "dev", "eth0")
    laid[0].limit("12mbit")
    assert "rate 12Mbit" in said("tc", "qdisc", "show", "dev", "eth0")
