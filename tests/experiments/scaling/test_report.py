"""README.md shows every result of the scaling studies, and becomes one HTML file."""

import re
import shlex
from html.parser import HTMLParser

import pytest

from experiments.results import RESULTS
from experiments.scaling import report
from tests.support.runs import ROOT

README = (ROOT / "experiments/scaling/README.md").read_text()


class Page(HTMLParser):
    """What a page holds; every end tag must close the tag opened last."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.sources = [], 0, []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.cells += tag == "td"
        self.sources += [value for name, value in attributes if name == "src"]

    def handle_endtag(self, tag):
        if tag not in ("meta", "img"):
            assert self.open.pop() == tag


def test_the_page_holds_all_tables_and_figures(tmp_path):
    report.write(report.Options(output=tmp_path / "page.html"))
    page = Page((tmp_path / "page.html").read_text())
    figures = re.findall(r"^!\[", README, re.MULTILINE)
    assert len(page.sources) == len(figures) > 5
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    rows = [line for line in README.splitlines() if re.match(r"\|(?! ?-)", line)]
    cells = sum(line.count("|") - 1 for line in rows)
    heads = len(re.findall(r"^\| ?---", README, re.MULTILINE))
    assert page.cells > 0.8 * cells
    assert heads == (tmp_path / "page.html").read_text().count("<table>")


@pytest.mark.parametrize("name", report.STUDIES)
def test_a_result_is_shown_with_its_figures_and_its_revision(name):
    text = report.shown(name)
    assert text in README
    assert text.startswith("![") == bool(report.STUDIES[name].figures)
    assert "\n\nMeasured at `" in text


def test_the_readme_has_the_commands_of_the_results():
    commands = re.sub(r"\s*\\\n\s*", " ", README)
    for result in RESULTS:
        if result.files in [f"scaling/results/{name}.json" for name in report.STUDIES]:
            for command in result.command.split(" && "):
                assert (
                    shlex.join(shlex.split(command.replace("CORPUS", "data/reviews"))) in commands
                )
