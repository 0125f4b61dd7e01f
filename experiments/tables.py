"""Make the tables of the pages from the results; nobody copies a number by hand.

python -m experiments.tables

The text of a page between the lines `<!-- made: package.module.function word ... -->` and
`<!-- /made -->` is what the function returns for these words. Before that, the command moves new
results into the results.json of their studies (see results.py).
"""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from configs import command
from experiments.results import EXPERIMENTS, NotMeasured, collect
from mlstm_sentiment.commands.parser import Parser
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_atomically

ROOT = EXPERIMENTS.parent
PAGES = ("README.md", "docs/*.md", "experiments/**/*.md", "mlstm_sentiment/pretrained/**/*.md")
MADE = re.compile(r"^(<!-- made: ([\w.]+)(.*?) -->\n).*?^(<!-- /made)", re.DOTALL | re.MULTILINE)
NOT_YET = "Not measured yet."  # in place of a table whose result is absent
DIRTY = "-dirty"  # what git describe adds to the revision of a tree with uncommitted changes


def main() -> None:
    Parser(description=__doc__).parse_args()
    update()


def update() -> None:
    """Make the tables of all pages again, from the results."""
    for name in collect():
        print(f"{name}: moved into results.json")
    for path in pages():
        text = path.read_text(encoding="utf-8")
        page = filled(text)
        if page != text:
            write = partial(Path.write_text, data=page, encoding="utf-8")
            write_atomically(path, write, None)
            print(f"{path.relative_to(ROOT)}: tables updated")


def pages() -> list[Path]:
    """Return the pages that may have tables."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]


def filled(text: str) -> str:
    """Return a page with new tables."""
    return MADE.sub(lambda m: f"{m[1]}{table(m[2], m[3].split())}\n{m[4]}", text)


def table(name: str, words: Sequence[str]) -> str:
    """Call a function, named with its module, with these words; return its text.

    It is NOT_YET where a result of the table is absent.
    """
    module, _, function = name.rpartition(".")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"<!-- made: {name} -->: {error}") from error
    try:
        return str(make(*words)).strip()
    except NotMeasured:
        return NOT_YET


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], sides: str = "") -> str:
    """Return a table in Markdown.

    sides: l or r for each column, to which its text is aligned; by default the first one to the
    left and all others to the right.
    """
    marks = {"l": "---", "r": "---:"}
    rule = [marks[side] for side in sides or "l" + "r" * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def percent(value: float, interval: Sequence[float] = ()) -> str:
    """Return a fraction in per cent, with its interval if there is one."""
    return f"{100 * value:.1f}{f' ({span(interval)})' if interval else ''}"


def span(interval: Sequence[float]) -> str:
    """Return the ends of an interval of fractions, in per cent."""
    return " to ".join(f"{100 * end:.1f}" for end in interval)


def accuracy(row: Mapping[str, Any]) -> str:
    """Return a test accuracy with its interval."""
    return percent(row["test_accuracy"], row["test_interval"])


def revision(origin: Mapping[str, Any]) -> str:
    """Return the revision of a result, and whether its tree had uncommitted changes."""
    clean = origin["git_revision"].removesuffix(DIRTY)
    return f"`{clean}`" + ", **the tree had uncommitted changes**" * (
        clean != origin["git_revision"]
    )


def origins(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Name the revisions and dates of results, and those whose tree had uncommitted changes.

    results: contents by the names of files; those without an origin are ignored.
    """
    measured = {name: result["origin"] for name, result in results.items() if "origin" in result}
    if not measured:
        return ""
    revisions = {origin["git_revision"].removesuffix(DIRTY) for origin in measured.values()}
    days = sorted({origin["date"] for origin in measured.values()})
    words = f"Measured at {', '.join(f'`{r}`' for r in sorted(revisions))}, {days[0]}"
    words += f" to {days[-1]}." if len(days) > 1 else "."
    dirty = [name for name, origin in measured.items() if origin["git_revision"].endswith(DIRTY)]
    return words + f" **The tree had uncommitted changes**: {', '.join(dirty)}." * bool(dirty)


if __name__ == "__main__":
    # The tables raise the NotMeasured of the imported module, which is another one here.
    command.run(importlib.import_module("experiments.tables").main)
