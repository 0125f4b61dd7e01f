"""Show the results of the scaling studies in README.md; write README.md as one HTML file.

python -m experiments.scaling.report     # report.html, with the figures inside
"""

import base64
import html
import mimetypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown import markdown

from configs import command
from experiments.tables import origins, read_result
from model.files.storage import write_atomically
from model.pages.page import SCROLLING, page_style

from . import closed, emulated, regressed, replayed
from .measuring import report as measuring

HERE = Path(__file__).resolve().parent
EXTENSIONS = ("tables", "fenced_code", "toc", "sane_lists")
IMAGE = re.compile(r'<img alt="(.*?)" src="(.*?)"')
STYLE = "img { max-width: 100%; background: #ffffff; } td, th { text-align: right; }"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write README.md as one HTML file that needs no other file."""

    output: Path = HERE / "report.html"
    """The HTML file."""


@dataclass(frozen=True)
class Study:
    """How a result is shown: its title, its tables and its figures."""

    title: str
    tables: Callable[[dict[str, Any]], str]
    figures: tuple[str, ...] = ()


STUDIES = {
    "replayed": Study("The model against a measurement", replayed.tables),
    "regressed": Study("Regression alone", regressed.tables),
    "measured_gloo": Study(
        "Measured on this machine, gloo: a check of the sweep",
        measuring.tables,
        ("measured_gloo.png",),
    ),
    "emulated": Study(
        "A scale model of a cluster",
        emulated.report,
        ("emulated.png", "emulated_ddp.png"),
    ),
    "convergence": Study("Convergence under scale", closed.convergence, ("convergence.png",)),
    "interpreter": Study("Processes against threads", closed.interpreter, ("interpreter.png",)),
    "precision": Study("Memory and precision", closed.precision, ("precision.png",)),
}


def main() -> None:
    write(command.parse(Options, __doc__))


def write(options: Options) -> None:
    """Write the page."""
    command.prepare_output(options.output)
    page = as_page(HERE / "README.md")
    write_atomically(options.output, lambda path: path.write_text(page, encoding="utf-8"))
    print(f"written to {options.output}")


def shown(name: str) -> str:
    """Return the figures and tables of a result, in Markdown."""
    study, result = STUDIES[name], read_result("scaling", name)
    figures = [f"![{study.title}](figures/{file})" for file in study.figures]
    return "\n\n".join([*figures, study.tables(result), origins({f"{name}.json": result})])


def as_page(path: Path) -> str:
    """Return a Markdown file as an HTML page that holds its images."""
    text = path.read_text(encoding="utf-8")
    title = html.escape(text.partition("\n")[0].removeprefix("# "))
    body = IMAGE.sub(
        lambda found: f'<img alt="{found[1]}" src="{as_data(path.parent / found[2])}"',
        markdown(text, extensions=EXTENSIONS),
    )
    body = body.replace("<table>", f"{SCROLLING}<table>").replace("</table>", "</table></div>")
    style = f"<style>{page_style()}\n{STYLE}</style>"
    head = f'<meta charset="utf-8">\n<title>{title}</title>\n{style}'
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>{body}</body></html>'


def as_data(path: Path) -> str:
    """Return a file as a data URL."""
    kind, _ = mimetypes.guess_type(path)
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


if __name__ == "__main__":
    command.run(main)
