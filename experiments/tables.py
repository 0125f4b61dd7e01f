"""Make the tables of the pages from the result files; nobody copies a number by hand.

python -m experiments.tables

The text of a page between the lines `<!-- made: package.module.function word ... -->` and
`<!-- /made -->` is what the function returns for these words. In the YAML at the head of a page,
the lines are `# made: ...` and `# /made`.

PAGE.tables.json next to a page holds its other tables as text, with the path of a result in place
of each number. In `{speed/results/busy.json#work/train/ratio *100:.1f}`, the path is relative to
experiments/. The keys in the file follow after `#` (`*`: all items of a list, whose median is
taken), then a factor and a format. ` & ` joins the paths of a mean, ` minus ` those of a difference
and ` over ` those of a ratio; ` over ` binds last, so that `A minus B over C` is (A - B) / C.
`{origins: FILE ...}` stands for the revisions that measured the files.
`block` makes such a table for pages whose results are still measured. The pages of closed studies
keep their text, and a test compares it with the results.
"""

import importlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from math import prod
from pathlib import Path
from statistics import fmean, median
from typing import Any

from configs import command
from model.errors import InputError
from model.files.storage import read_json, write_atomically

EXPERIMENTS = Path(__file__).resolve().parent
ROOT = EXPERIMENTS.parent
PAGES = ("README.md", "docs/*.md", "experiments/**/*.md", "model/pretrained/**/*.md")
MADE = re.compile(
    r"^((?:<!--|#) made: ([\w.]+)(.*?)(?: -->)?\n).*?^((?:<!--|#) /made)", re.DOTALL | re.MULTILINE
)
NOT_YET = "Not measured yet."  # in place of a table whose result is absent
DIRTY = "-dirty"  # what git describe adds to the revision of a tree with uncommitted changes
NUMBER = re.compile(r"\{([^{}]+\.jsonl?#[^{}]*):([^:{}]*)\}")
ORIGINS = re.compile(r"\{origins: ([^{}]*)\}")
FACTOR = re.compile(r" ([*/])([\d.e+-]+)(?= |$)")


class NotMeasured(InputError):
    """A result that is absent."""


def main() -> None:
    for path in pages():
        text = path.read_text(encoding="utf-8")
        page = filled(text)
        if page != text:
            write_atomically(path, partial(Path.write_text, data=page, encoding="utf-8"))
            print(f"{path.relative_to(ROOT)}: made anew")


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


def block(page: str, name: str) -> str:
    """Return a table of PAGE.tables.json, with its numbers."""
    return with_numbers(read_json(EXPERIMENTS / f"{page}.tables.json")["blocks"][name])


def with_numbers(lines: Iterable[str]) -> str:
    """Return lines with the numbers that the paths in them lead to."""
    text = NUMBER.sub(lambda match: format(number(match[1]), match[2]), "\n".join(lines))
    return ORIGINS.sub(
        lambda match: origins({Path(file).name: _content(file) for file in match[1].split()}), text
    )


def number(path: str) -> Any:
    """Return the number that a path with its factors leads to, or several joined ones."""
    steps = FACTOR.findall(path)
    path = FACTOR.sub("", path)
    above, over, below = path.partition(" over ")
    minuend, minus, subtrahend = path.partition(" minus ")
    if over:
        value = number(above) / number(below)
    elif minus:
        value = number(minuend) - number(subtrahend)
    else:
        values = _values(path.split(" & "))
        value = values[0] if len(values) == 1 else fmean(values)
    for sign in "*/":
        if factors := [float(factor) for which, factor in steps if which == sign]:
            value = value * prod(factors) if sign == "*" else value / prod(factors)
    return value


def _values(paths: Iterable[str]) -> list[Any]:
    parts = (path.partition("#") for path in paths)
    return [_value_at(_content(file), keys.split("/")) for file, _, keys in parts]


def _value_at(value: Any, keys: Sequence[str]) -> Any:
    for place, key in enumerate(keys):
        if key == "*":
            return median(_value_at(item, keys[place + 1 :]) for item in value)
        value = value[int(key)] if isinstance(value, list) else value[key.replace("~1", "/")]
    return value


@cache
def _content(file: str) -> Any:
    path = EXPERIMENTS / file
    if not path.is_file():
        raise NotMeasured(f"experiments/{file}: there is no such result")
    if path.suffix == ".json":
        return read_json(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
    command.run_plain(importlib.import_module("experiments.tables").main, __doc__)
