"""The scale model on two real nodes: what is sent, and nothing is left of them."""

import os
import signal
import subprocess

import pytest

from experiments.emulation.network import Unavailable, nodes
from experiments.scaling import emulated
from model.errors import InputError
from model.files.storage import read_json
from tests.runs import run, start, wait_for

MODULE = "experiments.scaling.emulated"


def test_without_root_it_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    before = signal.getsignal(signal.SIGTERM)
    output = tmp_path / "e.json"
    with pytest.raises(InputError, match=r"cannot emulate a network here: .* need root"):
        emulated.emulate(emulated.Options(output=output, nodes=2))
    signal.signal(signal.SIGTERM, before)
    assert not output.exists()


def laid_or_skipped():
    try:
        with nodes(2, "100mbit"):
            pass
    except Unavailable as error:
        pytest.skip(f"no network namespaces here: {error}")


# Seconds of milliseconds, 16 Mb/s: what another machine's load does to them is not asked here.
SMALL = ("--nodes", "2", "--factor", "3000", "--stretch", "0.2", "--attempts", "1", "--runs", "1")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_real_nodes(tmp_path):
    laid_or_skipped()
    output = tmp_path / "e.json"
    process = run("-m", MODULE, *SMALL, "--only", "ethernet,today", "--output", output, timeout=800)
    assert process.returncode in (0, 1), process.stderr
    result = read_json(output)
    found = {row["key"]: row for row in result["runs"]}
    assert len(found) == 3
    for row in found.values():
        assert row["turns"] in (5, 7)
        assert row["seconds"] > row["computing"]
    p, parameters = 16, 86_319_360
    for row in found.values():  # whatever this machine did to their seconds
        expected = 2 * (p - 1) / p * 2 * parameters / 3000
        assert row["sent_bytes"] == pytest.approx(expected, rel=1e-3)
    # What passes unlimited after a pause is a third of so few bytes; without a limit all would.
    (flat,) = (row for row in found.values() if row["way"] == "2018")
    assert flat["seconds"] - flat["computing"] > 0.5 * (flat["predicted"] - flat["computing"])
    assert result["sessions"][0]["ceilings"]["2"] > 20e6


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_real_nodes(tmp_path, sent):
    laid_or_skipped()

    def names():
        said = subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
        return {line.split()[0] for line in said.splitlines()}

    before = names()
    output = tmp_path / "e.json"
    with start("-m", MODULE, *SMALL, "--only", "skipped", "--output", output) as process:
        try:
            wait_for(output, lambda text: "seconds" in text, seconds=500)
            os.kill(process.pid, sent)
            assert process.wait(300) == 128 + sent  # a starved machine takes its time
        finally:
            process.kill()
    assert not names() - before
