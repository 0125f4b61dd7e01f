"""The Python files of the product, parsed, and what they import."""

import ast
from functools import cache

from tests.support.runs import ROOT

PACKAGES = ("mlstm_sentiment", "model", "data_utils", "training", "transfer", "scaling", "configs")
FOLDERS = (*PACKAGES, "scripts", "experiments")
TOP = [ROOT / "main.py"]
SOURCES = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")] + TOP


@cache
def parsed(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def imports_of(path):
    """Absolute names of the modules that a file imports."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
