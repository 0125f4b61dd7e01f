"""uv.lock: what `uv sync` installs is what pyproject.toml and the requirements files ask for."""

import re
import shutil
import subprocess
import tomllib
from urllib.parse import urlsplit

import pytest

from tests.support.runs import ROOT, done

UV = shutil.which("uv")
LOCK = (ROOT / "uv.lock").read_text()
PACKAGES = tomllib.loads(LOCK)["package"]
HOSTS = {"pypi.org", "files.pythonhosted.org", "download.pytorch.org"}


@pytest.mark.skipif(UV is None, reason="needs uv (pip install uv)")
def test_the_lock_is_that_of_pyproject():
    process = subprocess.run(
        [UV, "lock", "--check", "--offline"], cwd=ROOT, capture_output=True, text=True
    )
    done(process)


def test_its_versions_are_those_that_are_tested():
    locked = {(package["name"], package["version"].partition("+")[0]) for package in PACKAGES}
    names = {name for name, _ in locked}
    compared = 0
    for file in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if pin := re.match(r"([\w.-]+)==([\w.]+)", line):
                name = re.sub(r"[-_.]+", "-", pin[1]).lower()
                assert name not in names or (name, pin[2]) in locked, line
                compared += name in names
    assert compared >= 20


def test_linux_gets_the_build_for_the_cpu_and_nothing_of_cuda():
    registries = {p["version"]: p["source"]["registry"] for p in PACKAGES if p["name"] == "torch"}
    assert registries["2.13.0+cpu"] == "https://download.pytorch.org/whl/cpu"
    names = {package["name"] for package in PACKAGES}
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]
    assert "apex" not in names  # an unrelated package has that name


def test_it_names_only_public_registries():
    addresses = re.findall(r'\w+://[^"]+', LOCK)
    assert {urlsplit(address).hostname for address in addresses} == HOSTS
