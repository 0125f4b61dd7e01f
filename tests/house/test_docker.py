"""The Dockerfile: it names files that exist, and its steps run, here without an engine."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.house.pages import PAGES, commands_of
from tests.support.runs import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
STEPS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    if line
]
SYSTEM = ("apt-get", "useradd", "rm")  # steps for the image's own system


def values(instruction):
    return [value for name, value in STEPS if name == instruction]


def copied():
    """The paths that the image gets from the checkout."""
    return [source for value in values("COPY") for source in value.split()[:-1]]


def test_it_copies_what_exists_and_is_not_ignored():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())
    for source in copied():
        assert (ROOT / source).exists(), source


def test_it_runs_as_a_user_and_serves_as_the_page_says():
    (user,) = values("USER")
    assert user not in ("root", "0")
    assert STEPS.index(("USER", user)) < STEPS.index(("ENTRYPOINT", '["mlstm-sentiment"]'))
    (port,) = values("EXPOSE")
    (default,) = map(json.loads, values("CMD"))
    runs = [each for each in commands_of(PAGES["docs/serve.md"]) if each.startswith("docker run")]
    assert len(runs) == 3
    for command in runs:
        words = shlex.split(command)
        own = words[words.index("mlstm-sentiment") + 1 :] or default
        if own[0] == "serve":
            assert f"127.0.0.1:8000:{port}" in words
            assert own[1:3] == default[1:3] == ["--host", "0.0.0.0"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_steps_install_a_server(tmp_path):
    folders = {"/source": tmp_path / "source", "/home/sentiment": tmp_path / "home"}
    for folder in folders.values():
        folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    programs = tmp_path / "environment/bin"
    home = str(folders["/home/sentiment"])
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**inherited, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": home}
    environment |= {"XDG_CACHE_HOME": f"{home}/.cache", "PIP_RETRIES": "0"}
    place = tmp_path
    for name, value in STEPS:
        if name == "WORKDIR":
            place = folders[value]
        elif name == "COPY":
            *sources, target = value.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, place / (source if target == "./" else target))
        elif name == "RUN":
            own = [part for part in value.split("&&") if not part.strip().startswith(SYSTEM)]
            # In addition to the indexes of this machine, which may have what it does not reach.
            command = "&&".join(own).replace("--index-url", "--extra-index-url")
            process = subprocess.run(
                ["bash", "-c", command], cwd=place, env=environment, capture_output=True, text=True
            )
            assert process.returncode == 0, f"{value}\n{process.stdout}{process.stderr}"
    assert '"label": "' in process.stdout  # of the last step
    (engine,) = tmp_path.glob("environment/lib/*/site-packages/mlstm_sentiment/engine/_compiled*")
    assert engine.stat().st_size
    words = [programs / "mlstm-sentiment", *json.loads(values("CMD")[0]), "--port", "0"]
    with subprocess.Popen(words, cwd=home, env=environment, stdout=subprocess.PIPE) as server:
        address = server.stdout.readline().decode().split()[0]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"The sentiment neuron" in page.read()
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0
