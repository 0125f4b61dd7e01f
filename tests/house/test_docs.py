"""The pages of docs/: their links exist, and the code runs through the files they describe."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from inspect import cleandoc, signature
from pkgutil import resolve_name

import pytest

from configs.options import RunConfig, flatten
from mlstm_sentiment.commands.command_line import COMMANDS
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.featurizer import SentimentFeaturizer
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from mlstm_sentiment.units.unit_traces import sentiment_traces
from tests.support.checkouts import make_checkout
from tests.support.forked import run_forked
from tests.support.runs import ROOT, done, environment_of

PATTERNS = ("docs/*.md", "experiments/**/*.md", "mlstm_sentiment/pretrained/**/*.md", "*.md")
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).is_file(), target  # the site has no page of a folder


def test_the_installed_command_has_a_section_for_every_part():
    page = runpy.run_path(str(ROOT / "docs/conf.py"))["installed_command"]()
    sections = dict(re.findall(r"^## mlstm-sentiment (\w+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert list(sections) == list(COMMANDS)
    for name, section in sections.items():
        assert f"usage: mlstm-sentiment {name} " in section
        assert "examples:" in section


@pytest.mark.parametrize("kind", [SentimentClassifier, SentimentFeaturizer])
def test_what_the_page_of_python_lists_as_parameters_are_the_parameters(kind):
    """Every paragraph of that section, the last one, is a parameter."""
    section = cleandoc(kind.__doc__).partition("Parameters\n----------\n")[2]
    listed = [line.partition(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    assert sorted(listed) == sorted(signature(kind).parameters)


def test_what_the_page_of_python_lists_as_members_exists():
    page = (ROOT / "docs/api.md").read_text()
    for name, members in re.findall(r"autoclass:: (\S+)\n   :members: (.+)", page):
        kind = resolve_name(name)
        assert {*members.split(", ")} <= {*dir(kind), *kind.__annotations__}, name


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "downloaded"), [("use", False), ("the_neuron", False), ("the_neuron", True)]
)
def test_every_cell_of_a_notebook_runs(name, downloaded, tmp_path):
    """In a checkout as it is cloned; and, up to the cell that looks for them, next to sentences."""
    code = code_of(name)
    notebooks = make_checkout(tmp_path) / "docs/notebooks"  # where a kernel starts
    notebooks.mkdir()
    (notebooks / "checkpoints.json").symlink_to(ROOT / "docs/notebooks/checkpoints.json")
    if downloaded:
        code = code[: code.index("from sklearn", code.index("data/sst"))]
    else:
        shutil.rmtree(tmp_path / "data")
    (notebooks / "cells.py").write_text(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"
    )
    environment = environment_of({"MPLBACKEND": "agg"})
    done(run_forked(["cells.py"], notebooks, 800, environment))


def notebook(name):
    """The cells of a notebook."""
    return json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]


def code_of(name):
    """The code of a notebook."""
    return "\n".join("".join(c["source"]) for c in notebook(name) if c["cell_type"] == "code")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="install requirements-docs.txt")
    pytest.importorskip("myst_parser", reason="install requirements-docs.txt")
    call = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q"]
    process = subprocess.run(
        [*call, "-c", "docs", ".", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    done(process)
    assert "--pooling" in (tmp_path / "docs/commands/transfer.html").read_text()
    assert "Type<" not in (tmp_path / "docs/api.html").read_text()  # a text cut at its colon
    assert (tmp_path / "docs/try.html").stat().st_size > 1_000_000
    assert "../experiments/neuron/README.html" in (tmp_path / "docs/neuron.html").read_text()


def test_the_first_picture_shows_sentences_that_turn_and_right_answers():
    drawn = runpy.run_path(str(ROOT / "docs/pictures.py"))
    traces = sentiment_traces(Engine.load(drawn["MODEL"]), drawn["SENTENCES"], show_progress=False)
    answers = [trace.verdict.split()[1] for trace in traces.traces]
    assert answers == ["positive", "negative", "positive", "negative"]
    (limit,) = traces.ranges()
    for trace in traces.traces[:2]:
        assert trace.values.max() > limit
        assert trace.values.min() < -limit
    assert drawn["sentences"]().axes
    assert drawn["checkpoints"]().axes


def test_the_settings_that_pages_name_exist():
    settings = set(flatten(RunConfig()))
    sections = {name.partition(".")[0] for name in settings} - {"seed"}
    named = rf"(?:`|--)((?:{'|'.join(sorted(sections))})\.[a-z_-]+)"
    for page in (ROOT / "docs").glob("*.md"):
        names = {name.replace("-", "_") for name in re.findall(named, page.read_text())}
        files = {name for name in names if name.endswith((".csv", ".jsonl", ".safetensors"))}
        assert names - files <= settings, page.name


def test_the_web_pages_example_clamps_the_unit_of_the_default_towards_praise():
    fitted = SentimentClassifier().fitted
    (unit, value) = re.findall(
        r"clamp: { unit: (\d+), value: (\S+) }", (ROOT / "docs/demo.md").read_text()
    )[0]
    assert (int(unit), float(value) > 0) == (fitted.neuron, fitted.polarity > 0)
