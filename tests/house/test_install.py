"""`pip install .` ships mlstm_sentiment/ alone; the quickstart works from nothing."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from mlstm_sentiment.files.shipped import shipped_models
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from tests.support.runs import ROOT, done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what `pip install .` installs from here."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    shutil.copytree(ROOT / "mlstm_sentiment", source / "mlstm_sentiment")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--no-index", "--target", folder / "site", source),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "site"


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


def run_installed(installed, folder, *words):
    """Run Python outside of the checkout, with the installed package on its path."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return done(subprocess.run(
        [sys.executable, *map(str, words)], cwd=folder, env=environment, capture_output=True,
        text=True,
    ))  # fmt: skip


def test_the_installed_featurizer_works_outside_the_checkout(installed, small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    code = (
        "import json, mlstm_sentiment as m\n"
        f"features = m.SentimentFeaturizer.from_pretrained({str(tmp_path / 'model')!r})"
        ".transform(['good', 'bad'])\n"
        "shipped = m.SentimentClassifier.from_pretrained()\n"
        "print(json.dumps([m.__file__, features.shape, features[0, 0] != features[1, 0], "
        "str(shipped.loaded.folder)], default=bool))"
    )
    process = run_installed(installed, tmp_path, "-c", code)
    place, shape, differ, shipped = json.loads(process.stdout)
    assert str(installed) in place
    assert str(installed) in shipped
    assert shape == [2, 12]
    assert differ


def test_the_installed_command_classifies(installed, tmp_path):
    (tmp_path / "texts.csv").write_text("id,text\n1,I love it.\n2,It broke at once.\n")
    words = ("classify", "--input", "texts.csv", "--output", "labelled.jsonl")
    run_installed(installed, tmp_path, installed / "bin/mlstm-sentiment", *words)
    rows = [json.loads(line) for line in (tmp_path / "labelled.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["1", "2"]
    assert [row["label"] for row in rows] == ["positive", "negative"]


def test_the_installed_module_makes_pages(installed, tmp_path):
    words = ("-m", "mlstm_sentiment", "heatmap", "--text", "good", "--output", "page.html")
    run_installed(installed, tmp_path, *words)
    assert ">good<" in (tmp_path / "page.html").read_text()


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
