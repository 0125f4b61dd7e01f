"""The tables of the pages are what their files of results say; weights have their licence."""

import json
import re
import tomllib

import pytest

from experiments import tables
from experiments.models import tables as shipped
from experiments.published_sets import SOURCES
from model.errors import InputError
from model.files.shipped import SHIPPED_MODELS
from model.files.storage import read_json, write_json
from tests.support.runs import ROOT

PAGES = {path.relative_to(ROOT).as_posix(): path for path in tables.pages()}
MODELS = sorted(path.name for path in SHIPPED_MODELS.glob("*/"))


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_made_from_the_results(page):
    """`python -m experiments.tables` writes the tables again."""
    text = PAGES[page].read_text()
    assert tables.filled(text) == text
    assert text.count(" /made") == len(re.findall(r"^(?:<!--|#) made: ", text, re.MULTILINE))


def written(path):
    """The page of a file of tables, and the tables with the numbers of the results."""
    content = read_json(path)
    return content["page"], [tables.with_numbers(lines) for lines in content["blocks"].values()]


WRITTEN = [written(path) for path in sorted(tables.EXPERIMENTS.rglob("*.tables.json"))]


@pytest.mark.parametrize(("page", "blocks"), WRITTEN, ids=[page for page, _ in WRITTEN])
def test_the_numbers_of_a_page_equal_those_of_the_results(page, blocks):
    """This includes closed studies, whose tables no code writes any more."""
    text = PAGES[page].read_text()
    assert [block for block in blocks if block not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_closed_study_names_the_revision_that_has_its_code(page):
    """It has neither code nor a command that this checkout runs."""
    text = PAGES[page].read_text()
    if page.startswith("experiments/") and not (PAGES[page].with_suffix(".py")).exists():
        assert page.endswith("README.md") or "\nClosed; repeat with `git checkout " in text


def without_tables(page):
    """A page without its tables that are made, or compared with the results."""
    text = tables.MADE.sub("", PAGES[page].read_text())
    for block in (block for of, blocks in WRITTEN if of == page for block in blocks):
        text = text.replace(block, "")
    return text


def test_the_features_that_pages_name_are_those_that_are_best_on_val():
    paths = [*tables.EXPERIMENTS.glob("*.tables.json")]
    text = "".join(path.read_text() for path in paths)
    cited = set(re.findall(r"\{(neuron/results/[^#]*)#sets/(\w+)/rows/(\d+)/", text))
    assert cited
    for file, name, row in cited:
        rows = read_json(tables.EXPERIMENTS / file)["sets"][name]["rows"]
        assert max(range(len(rows)), key=lambda n: rows[n]["val_accuracy"]) == int(row), file


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.json#rows/1/right *100", 75),
        ("a.json#rows/*/right", 0.625),
        ("a.json#rows/0/right & b.json#all /2", 0.5),
        ("b.json#all minus a.json#rows/0/right", 1.0),
        ("b.json#all over a.json#rows/0/right", 3.0),
        ("b.json#all minus a.json#rows/0/right over a.json#rows/0/right", 2.0),
        ("a.json#rows/0/right & b.json#all over a.json#rows/0/right *2", 4.0),
        ("a.json#a~1b", 7),
    ],
)
def test_a_path_leads_to_a_number(path, value, tmp_path, monkeypatch):
    write_json(tmp_path / "a.json", {"rows": [{"right": 0.5}, {"right": 0.75}], "a/b": 7})
    write_json(tmp_path / "b.json", {"all": 1.5})
    monkeypatch.setattr(tables, "EXPERIMENTS", tmp_path)
    tables._content.cache_clear()
    assert tables.number(path) == value
    tables._content.cache_clear()


@pytest.mark.parametrize("page", PAGES)
def test_no_table_has_measured_numbers_by_hand(page):
    text = without_tables(page)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row for row in rows if re.search(r"\d\.\d+(?![\de])", row)] == []


# Sections that say what was set, not what was measured.
SETTINGS = (
    r"Question|Variables|Protocol|Method|Commands?|Recipe|Data and recipe|The model|Which runs"
)
# What else we did not measure: releases and licences; levels and goals; published values.
NOT_MEASURED = {
    *("2.0", "2.11", "2.15", "3.11", "3.12", "3.14", "6.12", "6.18"),
    *("95 %", "10 %", "5 %", "1.41", "0.03"),
    *("1.80", "1.70", "1.60"),  # the speedrun's targets
    *("0.81", "0.5", "1.120", "0.003", "1.875", "19.5", "0.29"),
}


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_has_measured_numbers_by_hand(page):
    """A number that is measured stands in a table, or in a sentence that is made."""
    text = re.sub(r"```.*?```", "", without_tables(page), flags=re.DOTALL)
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        if not re.match(SETTINGS, section):
            prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\d+\.\d+e-?\d+", "", section)
            numbers = re.findall(r"(?<![\w.,])\d+\.\d+(?!\.?\d)|\d+ ?%", prose)
            assert set(numbers) <= NOT_MEASURED, section.partition("\n")[0]


def test_a_page_is_filled_where_it_asks():
    page = (
        "---\n# made: tests.experiments.test_tables.shout a\nold\n# /made\n---\n"
        "<!-- made: tests.experiments.test_tables.shout b c -->\nold\n<!-- /made -->\nmore\n"
    )
    filled = tables.filled(page)
    assert filled == page.replace("old", "A", 1).replace("old", "B C", 1)
    assert tables.filled(filled) == filled


def shout(*words):
    return " ".join(words).upper()


def test_a_table_whose_result_is_absent_says_so():
    page = "<!-- made: tests.experiments.test_tables.unmeasured -->\nold\n<!-- /made -->"
    assert tables.filled(page) == page.replace("old", "Not measured yet.")


def unmeasured():
    return tables.read_result("tour", "absent")["rows"]


@pytest.mark.parametrize("name", ["nothing", "experiments.tables.nothing", "experiments.no.such"])
def test_an_unknown_function_is_named(name):
    with pytest.raises(InputError, match=rf"made: {name} "):
        tables.filled(f"<!-- made: {name} -->\n<!-- /made -->")


def test_results_of_a_changed_tree_are_marked():
    def result(revision, date="2026-01-02"):
        return {"origin": {"git_revision": revision, "date": date}}

    clean = {"a.json": result("0123abc")}
    assert tables.origins(clean) == "Measured at `0123abc`, 2026-01-02."
    both = tables.origins({**clean, "b.json": result("0123abc-dirty", "2026-01-05")})
    assert both.startswith("Measured at `0123abc`, 2026-01-02 to 2026-01-05.")
    assert both.endswith("**The tree had uncommitted changes**: b.json.")
    assert tables.revision({"git_revision": "0-dirty"}).endswith("uncommitted changes**")


def test_results_of_changed_trees_are_listed():
    """New results are not listed but measured again on a clean tree."""
    page = (tables.EXPERIMENTS / "README.md").read_text()
    section = re.search(r"^## Results from changed trees\n(.*?)^## ", page, re.M | re.S)[1]
    files = [path for path in tables.EXPERIMENTS.rglob("*.json") if "results" in path.parts]
    contents = {path.relative_to(tables.EXPERIMENTS).as_posix(): read_json(path) for path in files}
    dirty = {
        name
        for name, content in contents.items()
        if content.get("origin", {}).get("git_revision", "").endswith(tables.DIRTY)
    }
    assert {name for name in contents if f"`{name}`" in section} - {EMULATED} == dirty


EMULATED = "scaling/results/emulated.json"  # named for one of its sessions


@pytest.mark.parametrize("model", MODELS)
def test_a_card_names_licence_sources_and_numbers(model):
    folder = SHIPPED_MODELS / model
    assert (folder / "LICENSE").read_text() == (SHIPPED_MODELS / "LICENSE").read_text()
    card = (folder / "README.md").read_text()
    _, head, text = card.split("---\n", 2)
    assert "license_link: LICENSE\n" in head
    (index,) = re.findall(r"^model-index: (.*)$", head, re.MULTILINE)
    ((entry,),) = [json.loads(index)]
    assert entry["name"] == model
    assert all(row["metrics"] and row["dataset"]["split"] == "test" for row in entry["results"])
    assert "(SOURCES.md)" in text
    assert re.search(r"-m experiments\.(models|default_model)\.ship", text)


@pytest.mark.parametrize("model", MODELS)
def test_a_card_can_be_copied_alone(model):
    """What it links to lies in the model's folder."""
    for page in ("README.md", "SOURCES.md"):
        folder = SHIPPED_MODELS / model
        for target in re.findall(r"\]\((?!http)([^)]+)\)", (folder / page).read_text()):
            assert (folder / target).resolve().parent == folder, target
            assert (folder / target).is_file(), target


@pytest.mark.parametrize("model", MODELS)
def test_a_classifier_says_from_what_it_was_fitted(model):
    origin = read_json(SHIPPED_MODELS / model / "classifier" / "classifier.json")["origin"]
    if not model.startswith("stars_"):
        assert origin["data"]["train"]["examples"] == 6920  # SST's
    assert all(len(part["sha256"]) == 64 for part in origin["data"].values())
    assert re.search("--train train.csv|--texts ", origin["command"])


@pytest.mark.parametrize("model", sorted(set(MODELS) - {"stars_1024", "stars_512"}))
def test_the_results_of_a_shipped_model_are_of_its_weights(model):
    """The first page names them without looking at the weights."""
    for path in (ROOT / "experiments/reproduction/results" / model).glob("*.json"):
        if "model" in (result := read_json(path)):
            assert shipped.is_of_the_shipped(result, model), path


def test_the_characters_of_a_model_include_those_of_the_weights_that_it_began_with():
    assert shipped.characters("stars_1024") == "997 M, 127 M of them in a second training"
    averaged = shipped.characters("amazon_subword_1024")
    assert averaged == "997 to 1,008 M in each of 4 averaged trainings"
    assert shipped.characters("amazon_1024") == "1,327 M"


WEIGHTS = {"git_revision": "another", "date": "2999-12-31"}


def test_results_of_other_weights_are_not_said_to_be_of_the_shipped_ones(monkeypatch):
    result = read_json(ROOT / "experiments/reproduction/results/amazon_1024/sst.json")
    assert shipped.is_of_the_shipped(result, "amazon_1024")
    monkeypatch.setattr(shipped, "history", lambda model: iter([WEIGHTS]))
    assert shipped.sst("amazon_1024", "all_units") == "not measured"
    assert shipped.bits("amazon_1024") == "not measured"
    read = {"characters": 41e6, "git_revision": "4d3eaed92e4e"}
    said = shipped.named({"model": {"provenance": read}}, "amazon_1024")
    assert said == "a forerunner of `amazon_1024` trained on 41 M characters"
    assert shipped.named({"model": {"provenance": read}}, "gone_1024") == "`gone_1024`"


def test_every_source_that_was_kept_has_terms_and_an_address():
    counts = read_json(ROOT / "experiments/models/results/selection.json")["reviews"]
    names = {name[6:] for name in counts if name.startswith("kept: ")}
    sources = read_json(ROOT / "experiments/models/sources.json")
    assert set(sources["amazon"]) == names
    assert set(sources["amazon"]) | set(sources["other"]) == set(shipped.kept_reviews())
    for source in (row for part in sources.values() for row in part.values()):
        assert source["terms"]
        assert all(
            re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", a) for a in source["addresses"]
        )
    assert (
        f"| kept | {sum(n for name, n in counts.items() if name[6:] in names):,} |"
        in shipped.selection()
    )


def test_the_papers_that_experiments_compare_with_are_cited():
    cited = (ROOT / "CITATION.cff").read_text()
    named = re.findall(r"arXiv (\d+\.\d+)", json.dumps(SOURCES))
    assert {"1704.01444", "1808.01371", "1812.01207"} <= set(named)
    for paper in (*named, "2006.15704", "2006.02924", "2004.03072"):  # DDP, Adasum, CM-DARE
        assert f"arxiv.org/abs/{paper}" in cited


def test_the_release_has_one_number_and_one_date():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (date,) = re.findall(
        r"^date-released: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
    )
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}] - {date}\n" in (ROOT / "CHANGELOG.md").read_text()
