"""`pip install .` ships mlstm_sentiment/ alone; the quickstart works from nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest

from mlstm_sentiment.files.shipped import shipped_models
from tests.support.runs import ROOT, done


def copy_of_the_source(folder):
    """Copy what `pip install .` needs, so that nothing is built in the checkout."""
    shutil.copytree(ROOT / "mlstm_sentiment", folder / "mlstm_sentiment")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what `pip install .` installs from here.

    The compiler optimises little, which takes half the time; the slow test compiles as users do.
    """
    folder = tmp_path_factory.mktemp("install")
    compiler = folder / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O1\n')
    compiler.chmod(0o755)
    source = copy_of_the_source(folder / "source")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--no-index", "--target", folder / "site", source),
        ],
        env=os.environ | ({"CC": str(compiler)} if shutil.which("cc") else {}),
        check=True,
        capture_output=True,
    )
    return folder / "site"


@pytest.mark.long
def test_the_weights_travel_with_their_licence(installed):
    (info,) = installed.glob("*.dist-info")
    metadata = (info / "METADATA").read_text()
    assert "License-Expression: Apache-2.0 AND LicenseRef-Research-Use-Weights\n" in metadata
    sources = (f"mlstm_sentiment/pretrained/{name}/SOURCES.md" for name in shipped_models())
    for path in ("LICENSE", "mlstm_sentiment/pretrained/LICENSE", *sources):
        assert f"License-File: {path}\n" in metadata
        assert (info / "licenses" / path).read_bytes() == (ROOT / path).read_bytes()


def test_only_the_library_is_installed(installed):
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"mlstm_sentiment", "bin"}
    assert [path.name for path in (installed / "bin").iterdir()] == ["mlstm-sentiment"]
    sources = [
        path
        for path in (ROOT / "mlstm_sentiment").rglob("*")
        if path.suffix in (".c", ".cpp", ".h", ".html", ".css", ".js", ".wasm", ".typed")
    ]
    assert sources
    for source in sources:
        assert (installed / source.relative_to(ROOT)).is_file()


def test_what_is_installed_works_outside_the_checkout(installed, tmp_path):
    (tmp_path / "texts.csv").write_text("id,text\n1,I love it.\n2,It broke at once.\n")
    module = ("-m", "mlstm_sentiment", "heatmap", "--text", "good", "--output", "page.html")
    command = ("classify", "--input", "texts.csv", "--output", "labelled.jsonl")
    for words in (module, (installed / "bin/mlstm-sentiment", *command)):
        done(subprocess.run(
            [sys.executable, *map(str, words)], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(installed)},
        ))  # fmt: skip
    assert ">good<" in (tmp_path / "page.html").read_text()
    rows = [json.loads(line) for line in (tmp_path / "labelled.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["1", "2"]
    assert [row["label"] for row in rows] == ["positive", "negative"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_quickstart_from_nothing(tmp_path):
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "clone"], check=True)
    process = subprocess.run(
        ["bash", "scripts/quickstart.sh"], cwd=tmp_path / "clone", capture_output=True, text=True
    )
    done(process)
    assert "valid" in process.stdout
    results = json.loads((tmp_path / "clone/runs/tour/transfer/results.json").read_text())
    assert results["test_accuracy"] > results["baselines"]["untrained"]["test_accuracy"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fresh_environment_needs_150_megabytes(tmp_path):
    """PyTorch is not installed, and the commands and the server run."""
    source = copy_of_the_source(tmp_path / "source")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def installed_run(*words):
        process = subprocess.run(
            [environment / "bin" / words[0], *words[1:]], cwd=tmp_path, env=inherited,
            capture_output=True, text=True,
        )  # fmt: skip
        return done(process).stdout

    installed_run("python", "-m", "pip", "install", "--quiet", str(source))
    names = {line.split("==")[0] for line in installed_run("pip", "freeze").splitlines()}
    assert not names & {"torch", "scikit-learn", "scipy", "pandas", "matplotlib"}
    files = (path for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    assert sum(path.stat().st_size for path in files) < 150e6
    # tests/house/test_library.py runs the other commands without the packages.
    classified = installed_run("mlstm-sentiment", "classify", "--text", "good")
    assert '"label": "positive"' in classified
    installed_run("python", "-m", "pip", "install", "--quiet", f"{source}[serve]")
    serve = [environment / "bin/mlstm-sentiment", "serve", "--port", "0", "--no-token"]
    with subprocess.Popen(serve, cwd=tmp_path, env=inherited, stdout=subprocess.PIPE) as server:
        address = server.stdout.readline().decode().split()[0]
        with urllib.request.urlopen(f"{address}health", timeout=60) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0
