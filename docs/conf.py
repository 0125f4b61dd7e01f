"""The site of docs/, the experiments and the model cards: bash scripts/docs.sh.

The source folder is the repository, so that links between the pages are those that GitHub follows.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlstm_sentiment.commands.command_line import COMMANDS, PROGRAM, dispatch

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "The sentiment neuron"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "CHANGELOG.md",
    "docs/**.md",
    "experiments/**.md",
    "mlstm_sentiment/pretrained/**.md",
]
exclude_patterns = ["build", "data", "runs", ".*"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# The toctree of the home page lists the experiments' main pages; those link to the others.
suppress_warnings = ["toc.not_included"]
SCRIPTS = [
    "main.py",
    *(
        f"scripts/{path.name}"
        for path in sorted((ROOT / "scripts").glob("*.py"))
        if path.name != "command.py"
    ),
]

TEXTS: dict[str, list[str]] = {}  # of fields, while napoleon sees them


def write_command_pages(app: "Sphinx") -> None:
    """Write a page of every command's --help into commands/, which git ignores."""
    folder = DOCS / "commands"
    folder.mkdir(exist_ok=True)
    write_page(folder / f"{PROGRAM}.md", installed_command())
    for name in SCRIPTS:
        write_page(folder / f"{Path(name).stem}.md", f"# {name}\n\n{help_of(name)}")
    pages = {PROGRAM: PROGRAM, **{name: Path(name).stem for name in SCRIPTS}}
    rows = "\n".join(f"- [{name}](commands/{page}.md)" for name, page in pages.items())
    toctree = "\n".join(f"commands/{page}" for page in pages.values())
    page = f"# Commands\n\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    write_page(DOCS / "commands.md", page)


def write_page(path: Path, page: str) -> None:
    """Write a page unless it is there already: Sphinx reads again what has changed."""
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


def installed_command() -> str:
    """Return the page of the command that `pip install .` brings, with a section for each part."""
    intro = (
        f"# {PROGRAM}\n\n`pip install .` brings this command; `python -m mlstm_sentiment` is the "
        f"same.\n\n{help_of('-m', 'mlstm_sentiment')}"
    )
    parts = (
        f"## {PROGRAM} {name}\n\n{help_of('-m', 'mlstm_sentiment', name)}" for name in COMMANDS
    )
    return "\n".join([intro, *parts])


def help_of(*words: str) -> str:
    """Return what a command prints with --help, 100 columns wide, as a block of Markdown."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    call = [sys.executable, *words, "--help"]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, check=True)
    return f"```text\n{done.stdout.decode()}```\n"


def write_live_page(app: "Sphinx", error: Exception | None) -> None:
    """Write the page that docs/demo.md embeds, and an index that leads to the home page."""
    if error is None and app.builder.format == "html":
        dispatch(["demo", "--output", str(app.outdir / "docs" / "try.html")])
        home = '<meta http-equiv="refresh" content="0; url=docs/index.html">\n'
        write_page(app.outdir / "index.html", home)


def keep_text(app: "Sphinx", what: str, name: str, *given: Any) -> None:
    """Remember the text of a field, of which the last of `given` has the lines.

    Napoleon would take what precedes a colon in its first line for the field's type.
    """
    if what in ("attribute", "property"):
        TEXTS[name] = list(given[-1])


def restore_text(app: "Sphinx", what: str, name: str, *given: Any) -> None:
    """Undo what napoleon has done to the text of a field."""
    if name in TEXTS:
        given[-1][:] = TEXTS.pop(name)


def setup(app: "Sphinx") -> None:
    """Register the writing of the command pages, and what is done before and after napoleon."""
    app.connect("builder-inited", write_command_pages)
    app.connect("build-finished", write_live_page)
    app.connect("autodoc-process-docstring", keep_text, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", restore_text, priority=600)
