"""One page of all the studies of scaling.

python -m experiments.scaling.report
"""

import base64
import html
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown import markdown

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import DIRTY, origins
from model.errors import InputError
from model.files.storage import read_json, write_atomically
from model.pages.page import SCROLLING, fill, page_style, table

from .studies import STUDIES, Study

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE / "page.html"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the page that shows what every study made; what is missing is named."""

    folder: Path = HERE
    """Where the studies' files are."""
    output: Path | None = None
    """HTML file; absent, report.html in the folder."""


def main() -> None:
    options = command.parse(Options, __doc__)
    output = options.output or options.folder / "report.html"
    if not options.folder.is_dir():
        raise InputError(f"--folder {options.folder}: no such folder")
    command.prepare_output(output)
    write(output, as_page(STUDIES, options.folder, output.parent))
    missing = [name for study in STUDIES for name in study.missing(options.folder)]
    print(f"written to {output}" + (f"; missing: {', '.join(missing)}" if missing else ""))


def write(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def as_page(studies: Sequence[Study], folder: Path, beside: Path) -> str:
    """Return a page that needs nothing else; its links lead to JSON files, from `beside`."""
    origin = describe_origin()
    rows = [
        [f'<a href="#{anchor(study)}">{html.escape(study.title)}</a>', html.escape(state)]
        for study in studies
        for state in [state_of(study, folder)]
    ]
    content = {
        "style": page_style(),
        "contents": table(["study", "made"], rows),
        "studies": "\n".join(section(study, folder, beside) for study in studies),
        "origin": html.escape(
            f"Page made on {origin['date']} at revision {origin['git_revision']}: "
            "python -m experiments.scaling.report"
        ),
    }
    return fill(TEMPLATE.read_text(encoding="utf-8"), content)


def anchor(study: Study) -> str:
    """Return what links within the page call a study."""
    return re.sub(r"\W+", "-", study.title.lower()).strip("-")


def state_of(study: Study, folder: Path) -> str:
    """Say when a study's results were made, or what of them is missing."""
    words = [f"missing: {name}" for name in study.missing(folder)]
    for pattern in study.results:
        for content in map(read_json, study.found(folder, pattern)):
            words.append(made(content))
    return "; ".join(dict.fromkeys(words))


def made(content: dict[str, Any]) -> str:
    """Say when and at which revision a result was made, and how far it is."""
    origin = content.get("origin", {})
    revision = origin.get("git_revision", "no revision")
    words = f"{origin.get('date', 'no date')} at {revision.removesuffix(DIRTY)}"
    words += " with uncommitted changes in the tree" * revision.endswith(DIRTY)
    declared, runs = content.get("declared_runs"), content.get("runs", [])
    if declared is not None and len(runs) < declared:
        words += f", {len(runs)} of {declared} runs so far"
    return words


def section(study: Study, folder: Path, beside: Path) -> str:
    """Return a study: its command, its figures, its tables, links to its numbers."""
    parts = [
        f'<h2 id="{anchor(study)}">{html.escape(study.title)}</h2>',
        f"<pre><code>{html.escape(study.command)}</code></pre>",
        *(f'<p class="missing">Missing: {html.escape(n)}</p>' for n in study.missing(folder)),
    ]
    for pattern in study.figures:
        parts += [image(path, study.title) for path in study.found(folder, pattern)]
    results = [path for pattern in study.results for path in study.found(folder, pattern)]
    parts += [as_html(text) for text in tables_of(results)]
    links = [
        f'<a href="{html.escape(Path(os.path.relpath(path, beside)).as_posix())}">'
        f"{html.escape(path.name)}</a>, {html.escape(made(read_json(path)))}"
        for path in results
    ]
    parts += [f"<p>{link}</p>" for link in links]
    return "\n".join(parts)


def tables_of(results: Sequence[Path]) -> Iterator[str]:
    """Yield the texts beside results that have any."""
    for path in results:
        beside = path.with_suffix(".md")
        if beside.exists():
            yield beside.read_text(encoding="utf-8")


def image(path: Path, title: str) -> str:
    """Return a PNG as part of the page."""
    data = base64.b64encode(path.read_bytes()).decode()
    words = html.escape(f"{title}: {path.name}; its numbers are in the tables and JSON below")
    return f'<img alt="{words}" src="data:image/png;base64,{data}">'


def as_html(text: str) -> str:
    """Return Markdown as HTML; tables wider than the page scroll by themselves."""
    page = markdown(html.escape(text, quote=False), extensions=["tables"])
    return page.replace("<table>", f"{SCROLLING}<table>").replace("</table>", "</table></div>")


def shown(result: str) -> str:
    """Return the figures and the tables of the study that makes a result, for README.md."""
    (study,) = (study for study in STUDIES if result in study.results)
    figures = [
        f"![{study.title}]({path.relative_to(HERE).as_posix()})"
        for pattern in study.figures
        for path in study.found(HERE, pattern)
    ]
    results = study.found(HERE, result)
    made_at = origins({path.name: read_json(path) for path in results})
    return "\n\n".join([*figures, *map(str.strip, tables_of(results)), made_at])


if __name__ == "__main__":
    command.run(main)
