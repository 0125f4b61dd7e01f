"""The report: every study on one page, what is missing named, tables into the README."""

import base64
import importlib
import re
import shlex
from html.parser import HTMLParser

import pytest

from configs import command
from experiments.scaling import report
from experiments.scaling.studies import FOLDER, STUDIES, Study
from experiments.scaling.tables import keep_tables
from experiments.tables import markdown
from model.errors import InputError
from model.files.storage import write_json
from tests.runs import ROOT

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
THERE = Study("What is & was", "python -m x --output <file>", ("results/a.json",), ("a_*.png",))
ABSENT = Study("Yet to come", "python -m y", ("results/b.json",), ("b.png",))


@pytest.fixture
def folder(tmp_path):
    """Make a folder in which one of two studies has been made, as far as it goes."""
    (tmp_path / "results").mkdir()
    origin = {"date": "2026-01-02", "git_revision": "0123abc-dirty"}
    write_json(
        tmp_path / "results" / "a.json", {"runs": [1, 2], "declared_runs": 3, "origin": origin}
    )
    table = markdown(["way", "bits"], [["one <b>", "1.25"], ["other", ""]])
    keep_tables(tmp_path / "results" / "a.json", f"Fewer & better:\n\n{table}")
    for name in ("a_1.png", "a_2.png"):
        (tmp_path / name).write_bytes(PIXEL)
    return tmp_path


class Page(HTMLParser):
    """What a page holds; ends must meet their beginnings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.links, self.images = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "a":
            self.links.append(given["href"])
        if tag == "img":
            self.images.append(given)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_a_page_holds_figures_tables_links_and_what_is_missing(folder):
    text = report.as_page((THERE, ABSENT), folder, folder / "elsewhere")
    page = Page(text)
    held = [base64.b64decode(image["src"].partition("base64,")[2]) for image in page.images]
    assert held == [PIXEL, PIXEL]
    assert all(image["alt"] for image in page.images)
    assert {"one <b>", "1.25", "other"} <= set(page.cells)
    assert "../results/a.json" in page.links
    assert "Missing: results/b.json" in text
    assert "Missing: b.png" in text
    assert "2 of 3 runs so far" in text
    assert "at 0123abc with uncommitted changes in the tree" in text
    assert "python -m x --output &lt;file&gt;" in text
    assert "What is &amp; was" in text
    assert {"#what-is-was", "#yet-to-come"} <= set(page.links)
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"(src|href)=\"(?!data:|#|\.\./results)", text)


def test_a_study_is_shown_by_its_figures_and_tables(folder, monkeypatch):
    monkeypatch.setattr(report, "STUDIES", (THERE, ABSENT))
    monkeypatch.setattr(report, "HERE", folder)
    text = report.shown("results/a.json")
    assert text.startswith("![What is & was](a_1.png)\n\n![What is & was](a_2.png)\n\nFewer")
    assert "| other |  |\n\nMeasured at `0123abc`, 2026-01-02." in text


def test_the_command_writes_the_page(folder, monkeypatch, capsys):
    monkeypatch.setattr(report, "STUDIES", (THERE, ABSENT))
    monkeypatch.setattr("sys.argv", ["report", "--folder", str(folder)])
    report.main()
    Page((folder / "report.html").read_text())
    assert "missing: results/b.json, b.png" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["report", "--folder", str(folder / "nowhere")])
    with pytest.raises(InputError, match="no such folder"):
        report.main()


def test_headings_lists_and_emphasis_are_shown_as_such():
    text = report.as_html("### One & all\n\nIt is **2 < 3**.\n\n- this\n- that")
    Page(text)
    assert "<h3>One &amp; all</h3>" in text
    assert "<strong>2 &lt; 3</strong>" in text
    assert "<li>that</li>" in text


def test_a_cell_that_is_empty_stays_one():
    text = report.as_html("| a | b | c |\n| --- | ---: | ---: |\n| 1 |  |  |")
    assert text.count("<td") == 3


README = (ROOT / "experiments/scaling/README.md").read_text()


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.title)
def test_every_command_names_a_program_that_is_there(study):
    for line in study.command.splitlines():
        python, program, *rest = shlex.split(line)
        assert python == "python"
        path = rest[0].replace(".", "/") + ".py" if program == "-m" else program
        assert (ROOT / path).exists()


@pytest.mark.parametrize("name", ["convergence", "interpreter", "precision"])
def test_commands_are_taken_and_make_what_the_report_looks_for(name):
    (study,) = (study for study in STUDIES if f"results/{name}.json" in study.results)
    options = importlib.import_module(f"experiments.scaling.{name}").Options
    parsed = command.parse(options, arguments=shlex.split(study.command)[3:])
    assert [parsed.output] == [FOLDER / result for result in study.results]
    assert [parsed.figure] == [FOLDER / figure for figure in study.figures]
    assert study.command.replace("CORPUS", "data/reviews") in re.sub(r"\s*\\\n\s*", " ", README)
