"""Make the tables of the pages from the files of results; nobody copies a number by hand.

python -m experiments.tables

Between the lines `<!-- made: package.module.function word ... -->` and `<!-- /made -->` of a page
stands what the function returns for these words. In the YAML at the head of a page the lines are
`# made: ...` and `# /made`. A test makes the tables again and compares.
"""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from configs import command
from model.errors import InputError
from model.files.storage import read_json, write_atomically

EXPERIMENTS = Path(__file__).resolve().parent
ROOT = EXPERIMENTS.parent
PAGES = ("README.md", "docs/*.md", "experiments/**/README.md", "model/pretrained/**/*.md")
MADE = re.compile(
    r"^((?:<!--|#) made: ([\w.]+)(.*?)(?: -->)?\n).*?^((?:<!--|#) /made)", re.DOTALL | re.MULTILINE
)
NOT_YET = "Not measured yet."  # in place of a table whose result is absent
DIRTY = "-dirty"  # what git describe adds to the revision of a tree with uncommitted changes


class NotMeasured(InputError):
    """A result that is absent."""


def main() -> None:
    for path in pages():
        text = path.read_text(encoding="utf-8")
        made = filled(text)
        if made != text:
            write_atomically(path, lambda at, made=made: at.write_text(made, encoding="utf-8"))
            print(f"{path.relative_to(ROOT)}: made anew")


def pages() -> list[Path]:
    """Return the pages that may have tables."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]


def filled(text: str) -> str:
    """Return a page with new tables."""
    return MADE.sub(lambda found: f"{found[1]}{made(found[2], found[3].split())}\n{found[4]}", text)


def made(name: str, words: Sequence[str]) -> str:
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


def kept(study: str, name: str) -> dict[str, Any] | None:
    """Return the content of experiments/STUDY/results/NAME.json; None if it is absent."""
    path = EXPERIMENTS / study / "results" / f"{name}.json"
    return read_json(path) if path.is_file() else None


def read_result(study: str, name: str) -> dict[str, Any]:
    """Return the content of a kept result; NotMeasured if it is absent."""
    result = kept(study, name)
    if result is None:
        raise NotMeasured(f"experiments/{study}/results/{name}.json: there is no such result")
    return result


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns except the first are aligned to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table of rows whose keys, the same in all, are the head."""
    return markdown(list(rows[0]), [list(row.values()) for row in rows])


def percent(value: float, interval: Sequence[float] = ()) -> str:
    """Return a fraction in per cent, with its interval if there is one."""
    ends = f" ({' to '.join(f'{100 * end:.1f}' for end in interval)})" if interval else ""
    return f"{100 * value:.1f}{ends}"


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
    made = {name: result["origin"] for name, result in results.items() if "origin" in result}
    if not made:
        return ""
    revisions = {origin["git_revision"].removesuffix(DIRTY) for origin in made.values()}
    days = sorted({origin["date"] for origin in made.values()})
    words = f"Measured at {', '.join(f'`{r}`' for r in sorted(revisions))}, {days[0]}"
    words += f" to {days[-1]}." if len(days) > 1 else "."
    dirty = [name for name, origin in made.items() if origin["git_revision"].endswith(DIRTY)]
    return words + f" **The tree had uncommitted changes**: {', '.join(dirty)}." * bool(dirty)


if __name__ == "__main__":
    # The tables raise the NotMeasured of the imported module, which is another one here.
    command.run_plain(importlib.import_module("experiments.tables").main, __doc__)
