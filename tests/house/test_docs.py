"""The pages of docs/: their links exist, and the code runs through the files they describe."""

import json
import re
import runpy
import subprocess
import sys
from inspect import signature
from pathlib import Path

import docstring_parser
import pytest

from data_utils.lanes import Lanes
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.commands.command_line import COMMANDS
from model.inference.featurizer import SentimentFeaturizer
from tests.support.checkouts import make_checkout
from tests.support.runs import ROOT, run_shell
from tests.support.trainers import CPU, make_trainer
from training.feeding import as_batch

PATTERNS = ("docs/*.md", "experiments/**/*.md", "model/pretrained/**/*.md", "*.md")
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_installed_command_has_a_section_for_every_part():
    page = runpy.run_path(str(ROOT / "docs/conf.py"))["installed_command"]()
    sections = dict(re.findall(r"^## mlstm-sentiment (\w+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert list(sections) == list(COMMANDS)
    for name, section in sections.items():
        assert f"usage: mlstm-sentiment {name} " in section
        assert "examples:" in section


def test_the_figure_names_every_folder():
    """Of a package the subfolders; tests are described by their own folders alone."""
    figure = re.search(r"```\n(main\.py .*?)```", ARCHITECTURE, re.DOTALL)[1]
    parts = dict(re.findall(r"^(\w+)/(.*?)(?=^\S|\Z)", figure, re.M | re.S))
    shown = {part for part in parts if (ROOT / part / "__init__.py").is_file()}
    assert shown == {path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")}
    for part in shown - {"tests", "experiments"}:
        within = {path.parent.name for path in (ROOT / part).glob("*/__init__.py")}
        assert set(re.findall(r"\b(\w+)/", parts[part])) == within, part


def described(way):
    """The files that the page names on a way, in its order."""
    text = re.search(rf"<!-- path: {way} -->(.*?)<!-- /path -->", ARCHITECTURE, re.DOTALL)[1]
    return list(dict.fromkeys(re.findall(r"\]\(\.\./([\w/]+\.py)\)", text)))


def taken(work):
    """Our files in the order in which work first calls a function of theirs."""
    files = {}

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and ".venv" not in path.parts:
            files.setdefault(path.relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return list(files)


def test_a_step_runs_through_the_described_files(small_split):
    trainer, lanes = make_trainer(), Lanes(small_split, lanes=3, window=16)
    files = taken(lambda: trainer.train(as_batch(lanes[0], CPU)))
    way = described("training")
    assert len(way) == 10
    assert [name for name in files if name in way] == way


def test_a_text_runs_through_the_described_files():
    classifier = SentimentClassifier.from_pretrained("amazon_1024")
    files = taken(lambda: classifier.predict_proba(["so good"]))
    way = described("classifying")
    assert len(way) == 9
    assert [name for name in files if name in way] == way


@pytest.mark.parametrize("kind", [SentimentClassifier, SentimentFeaturizer])
def test_what_the_page_of_python_lists_as_parameters_are_the_parameters(kind):
    """Every paragraph of that section is taken for one."""
    listed = docstring_parser.parse(kind.__doc__, docstring_parser.DocstringStyle.NUMPYDOC).params
    assert sorted(each.arg_name for each in listed) == sorted(signature(kind).parameters)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["use", pytest.param("find_the_neuron", marks=pytest.mark.slow)])
def test_every_cell_of_a_notebook_runs(name, tmp_path):
    cells = json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "".join(cells[0]["source"]).startswith("# ")
    assert not any(cell.get("outputs") for cell in cells)
    code = code.replace("mlstm_sentiment", "model").replace("STEPS = 800", "STEPS = 5")
    code = code.replace('("--draws", 2, ', '("--labels", 10, "--draws", 1, ')
    notebooks = make_checkout(tmp_path) / "docs/notebooks"  # where a kernel starts
    notebooks.mkdir(parents=True, exist_ok=True)
    (notebooks / "cells.py").write_text(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"
    )
    process = run_shell("python cells.py", cwd=notebooks, timeout=800)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="install requirements-docs.txt")
    pytest.importorskip("myst_parser", reason="install requirements-docs.txt")
    call = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q", "docs", str(tmp_path)]
    process = subprocess.run(call, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "--pooling" in (tmp_path / "commands" / "transfer.html").read_text()
    assert "Type<" not in (tmp_path / "api.html").read_text()  # a text cut at its colon


def test_the_web_pages_example_clamps_the_unit_of_the_default_towards_praise():
    fitted = SentimentClassifier().fitted
    (unit, value) = re.findall(
        r"clamp: { unit: (\d+), value: (\S+) }", (ROOT / "docs/demo.md").read_text()
    )[0]
    assert (int(unit), float(value) > 0) == (fitted.neuron, fitted.polarity > 0)
