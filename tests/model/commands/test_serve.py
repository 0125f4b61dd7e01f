"""serve as a process: the page of demo, on this machine alone."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from model import save_model
from model.commands.command_line import dispatch
from model.errors import InputError
from model.text.profiles import text_profile
from tests.runs import ROOT


def test_the_page_is_served_until_ctrl_c(small_model, tmp_path):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    process = subprocess.Popen(
        [sys.executable, "-m", "model", "serve", "--model", tmp_path / "m", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as response:
            assert b"The sentiment neuron" in response.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_port_is_a_port():
    with pytest.raises(InputError, match="--port is 70000"):
        dispatch(["serve", "--port", "70000"])
