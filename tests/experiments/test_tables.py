"""The tables of the pages are what their files of results say; weights have their licence."""

import json
import re
from copy import deepcopy
from functools import partial

import pytest

from experiments import results, tables
from experiments.models import tables as shipped
from experiments.speed import tables as speed
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.files.storage import read_json
from tests.support import frozen
from tests.support.runs import ROOT

PAGES = {path.relative_to(ROOT).as_posix(): path for path in tables.pages()}
FROZEN = frozen.frozen_numbers()
MODELS = sorted(path.name for path in SHIPPED_MODELS.glob("*/"))


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_made_from_the_results(page):
    """`python -m experiments.tables` writes the tables again."""
    text = PAGES[page].read_text()
    assert tables.filled(text) == text
    assert text.count(" /made") == len(re.findall(r"^<!-- made: ", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_closed_studies_have_the_numbers_of_their_results(page):
    """No code makes these tables any more; to change one, change the record, too."""
    printed, recorded = frozen.numbers_on(page), FROZEN.get(page)
    if recorded is None:
        assert not [number for number in printed if "." in number], "neither made nor recorded"
        return
    assert len(printed) == len(recorded)
    pairs = zip(printed, recorded, strict=True)
    assert [pair for pair in pairs if not frozen.agrees(*pair)] == []


def test_a_page_is_filled_where_it_asks():
    page = (
        "<!-- made: tests.experiments.test_tables.shout a -->\nold\n<!-- /made -->\n"
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
    return results.read_result("tour", "absent")["rows"]


def test_results_of_a_changed_tree_are_marked():
    def result(revision, date="2026-01-02"):
        return {"origin": {"git_revision": revision, "date": date}}

    clean = {"a.json": result("0123abc")}
    assert tables.origins(clean) == "Measured at `0123abc`, 2026-01-02."
    both = tables.origins({**clean, "b.json": result("0123abc-dirty", "2026-01-05")})
    assert both.startswith("Measured at `0123abc`, 2026-01-02 to 2026-01-05.")
    assert both.endswith("**The tree had uncommitted changes**: b.json.")
    assert tables.revision({"git_revision": "0-dirty"}).endswith("uncommitted changes**")


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (speed.first_page, ["training_fp32_512"]),
        (speed.training, ["training_fp32_512", "training_bf16_1024"]),
        (speed.parts, ["parts_bf16_512"]),
    ],
)
def test_a_table_of_speed_names_the_processors_of_its_results(monkeypatch, table, names):
    def elsewhere(study, name):
        result = deepcopy(results.read_result(study, name))
        if name in names:
            hardware = result["origin"]["hardware"]
            hardware |= {"cores": 4, "processor": "Abacus", "bf16_instructions": []}
        return result

    monkeypatch.setattr(speed, "read_result", elsewhere)
    both = "On 2 cores of AMD EPYC cpu family 25 model 17, avx512_bf16; 4 cores of Abacus. Measured"
    assert both in table()


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
    if model.startswith("amazon_"):
        shown = [each["value"] for row in entry["results"] for each in row["metrics"]]
        reproduced, bits = (partial(results.read_result, s) for s in ("reproduction", "models"))
        alone = reproduced(f"{model}/one_rule")["rules"]["best_on_train"]["sets"]
        rows = [reproduced(f"{model}/sst")["all_units"], *map(alone.get, ("sst", "imdb", "cr"))]
        measured = [row["test_accuracy"] for row in rows]
        measured.append(bits(f"bits_{model}")["bits_per_character"])
        assert shown == pytest.approx(measured, abs=1e-4)
    assert "(SOURCES.md)" in text
    assert re.search(r"-m experiments\.(models|default_model)\.ship", text)


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
    names = [name for name in results.names("reproduction") if name.startswith(f"{model}/")]
    assert len(names) >= 7
    for name in names:
        assert shipped.is_of_the_shipped(results.read_result("reproduction", name), model), name


WEIGHTS = {"git_revision": "another", "date": "2999-12-31"}


def test_results_of_other_weights_are_not_said_to_be_of_the_shipped_ones(monkeypatch):
    result = results.read_result("reproduction", "amazon_1024/sst")
    assert shipped.is_of_the_shipped(result, "amazon_1024")
    monkeypatch.setattr(shipped, "history", lambda model: iter([WEIGHTS]))
    assert shipped.sst("amazon_1024", "all_units") == "not measured"
    assert shipped.bits("amazon_1024") == "not measured"
    read = {"characters": 41e6, "git_revision": "4d3eaed92e4e"}
    said = shipped.named({"model": {"provenance": read}}, "amazon_1024")
    assert said == "a forerunner of `amazon_1024` trained on 41 M characters"
    assert shipped.named({"model": {"provenance": read}}, "gone_1024") == "`gone_1024`"
