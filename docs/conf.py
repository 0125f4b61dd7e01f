"""The site of these pages: python -m sphinx -W docs build/docs (requirements-docs.txt)."""

import os
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

project = "The sentiment neuron"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = project
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# Links lead to files of the repository, whose headings are no part of the site.
suppress_warnings = ["myst.xref_missing"]
COMMANDS = [
    "main.py",
    *(
        f"scripts/{path.name}"
        for path in sorted((ROOT / "scripts").glob("*.py"))
        if path.name != "command.py"
    ),
]


def write_command_pages(app: Sphinx) -> None:
    """Write a page of every command's --help into commands/, which git ignores."""
    folder = DOCS / "commands"
    folder.mkdir(exist_ok=True)
    for name in COMMANDS:
        page = f"# {name}\n\n```text\n{help_of(name)}```\n"
        path = folder / f"{Path(name).stem}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")
    rows = "\n".join(f"- [{name}](commands/{Path(name).stem}.md)" for name in COMMANDS)
    toctree = "\n".join(f"commands/{Path(name).stem}" for name in COMMANDS)
    page = f"# Commands\n\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    (DOCS / "commands.md").write_text(page, encoding="utf-8")


def help_of(name: str) -> str:
    """Return what a command prints with --help, 100 columns wide."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    call = [sys.executable, name, "--help"]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


def setup(app: Sphinx) -> None:
    """Register the writing of the command pages."""
    app.connect("builder-inited", write_command_pages)
