"""The page in headless Chromium: what a person does with it, and its numbers against Python's."""

import math
import time
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pytest

from mlstm_sentiment.demo import demo_page
from tests.mlstm_sentiment.demo.models import python_says, small_classifier, small_model
from tests.support.chromium import CHROMIUM, DRIVER, KEYS, Browser, browser

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver (Debian: chromium, chromium-driver)",
)

CLOSE = 1e-9  # the same numbers; sums of float64 may be in another order
READ = "panels.get(0).verdict !== null"
TEXTS = [
    "",
    "I loved it.",
    "  It broke\nafter two days.\n\n ",
    "Tom &amp; Jerry &lt;3 &eacute;t&eacute; &notanentity; &#8217; &#x1F600; &#1; &nbsp;",
    "emoji: 😀 👩‍👩‍👧 🇫🇷 👍🏽, and a lone &#xD800; one",
    "فيلم رائع جدا، أحببته كثيرا",
    "\u3000wide\u2003spaces\x1f",
    "naïve café, 很好, ไม่ชอบ",
    "R&B" + 16 * "😍" + " &" + 31 * "x" + "😀",  # no reference, and no half of an emoji
    "Good.&#13;&#10;Bad. &#10;",
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as session:
        yield session


@pytest.fixture
def opened(chromium, tmp_path):
    """Return a function that writes the page of a model and its classifier, and loads it."""

    def write_and_load(loaded, classifier):
        (tmp_path / "page.html").write_text(demo_page(loaded, classifier), encoding="utf-8")
        load(chromium, (tmp_path / "page.html").as_uri())
        return chromium

    return write_and_load


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A page of a small model, and that model."""
    folder = tmp_path_factory.mktemp("small")
    loaded = small_model(folder / "model")
    page = demo_page(loaded, small_classifier(loaded))
    (folder / "page.html").write_text(page, encoding="utf-8")
    return folder / "page.html", loaded


@pytest.fixture
def page(chromium, small):
    """The small model's page, newly loaded, awake, without a text."""
    chromium.open("about:blank")
    load(chromium, small[0].as_uri() + "#text=")
    return chromium


def load(page: Browser, address: str) -> None:
    """Load a page and its model; on a loaded machine, `open` returns before the script ran."""
    page.open(address)
    until(page, "typeof sentimentNeuron === 'object'")
    page.run("await sentimentNeuron.ready")


def resize(page: Browser, width: int, height: int) -> None:
    """Give the page the window of a phone, or of a larger screen."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.devtools("Emulation.setDeviceMetricsOverride", **metrics)


def until(page: Browser, condition: str):
    """Wait until an expression of the page is true; return its value."""
    for _ in range(400):
        if value := page.run(f"return {condition}"):
            return value
        time.sleep(0.05)
    raise AssertionError(f"never true: {condition}")


def compare(page: Browser, loaded, classifier, texts) -> None:
    """Compare the page's numbers with Python's."""
    said = python_says(loaded, classifier, texts, page.run("return unit"))
    for text, expected in zip(texts, said, strict=True):
        result = page.run("return await sentimentNeuron.read(arguments[0])", text)
        assert bytes(result["bytes"]) == loaded.profile.opening(text), repr(text)
        read, values = len(result["bytes"]), expected["values"]
        assert np.abs(np.array(result["values"]) - values[:read]).max() <= CLOSE, repr(text)
        assert abs(result["value"] - values[-1]) <= CLOSE, repr(text)
        probability = 1 / (1 + math.exp(-expected["odds"]))
        assert abs(result["probability"] - probability) <= CLOSE, repr(text)
        assert result["neutral"] == (
            expected["neutral"] and pytest.approx(expected["neutral"], abs=CLOSE)
        )


def test_texts_become_the_bytes_and_numbers_of_python(page, small):
    compare(page, small[1], small_classifier(small[1]), TEXTS)


def test_subwords_colour_the_letters_of_their_tokens(opened, tmp_path):
    loaded = small_model(tmp_path / "model", kind="bpe")
    classifier = small_classifier(loaded)
    page = opened(loaded, classifier)
    compare(page, loaded, classifier, TEXTS)
    text = "The lamp works, I love the film."
    shown = set_text(page, text)
    assert [letter or " " for letter, _, _ in shown] == list(text)
    limit = page.run("return limit()")
    (said,) = python_says(loaded, classifier, [text], classifier.neuron)
    values = said["values"][2 : 2 + len(text)]  # after the opening
    expected = np.clip(-values / limit, -1, 1)  # polarity -1
    strengths = strengths_of(shown)
    np.testing.assert_allclose(strengths, expected, atol=1e-3)
    assert len(set(strengths)) < len(text) - 5  # letters of one token have one colour
    page.run("document.getElementById('write').click()")
    until(page, f"panels.get(0).text.value.length > {len(text) + 20}")
    page.run("stop()")
    until(page, READ)
    again = page.run("return panels.get(0).text.value")
    assert again.startswith(text)
    compare(page, loaded, classifier, [again])


def test_letters_are_coloured_as_one_types(page, small):
    page.type("#text0", "Good: né!")
    until(page, READ)
    shown = colours_of(page)
    assert [letter or " " for letter, _, _ in shown] == list("Good: né!")
    loaded, limits = small[1], page.run("return about.limits")
    values = python_says(loaded, None, ["Good: né!"], 4)[0]["values"]
    places = [2, 3, 4, 5, 6, 7, 8, 10, 11]  # of each letter's last byte
    expected = np.clip(-values[places] / limits[4], -1, 1)  # polarity -1: the unit is turned
    np.testing.assert_allclose(strengths_of(shown), expected, atol=1e-3)
    before = page.run("return document.querySelector('.probability strong').innerText")
    page.type("#text0", " Bad?")
    until(page, READ)
    assert page.run("return document.querySelector('.probability strong').innerText") != before
    until(page, "document.querySelector('.spoken').innerText.includes('positive')")


def colours_of(page: Browser) -> list:
    """Return each letter with its colour, "" where it has none."""
    return page.run(
        "return [...document.querySelectorAll('.mirror span')].map((span) =>"
        "[span.innerText, span.className, span.style.getPropertyValue('--share')])"
    )


def strengths_of(colours: list) -> list[float]:
    """Return each letter's part of the scale, below zero towards the low end."""
    return [float(strength or 0) * (-1 if name == "low" else 1) for _, name, strength in colours]


def set_text(page: Browser, text: str) -> list:
    """Set the text of the page; return the colours once it is read."""
    page.run("panels.get(0).set(arguments[0])", text)
    until(page, READ)
    return colours_of(page)


@pytest.mark.parametrize(
    ("before", "after"), [("Good", " Good"), (" Good", "Good"), ("Good x", "Good "), ("ab", "aab")]
)
def test_colours_are_those_of_the_text_whatever_stood_there_before(page, before, after):
    set_text(page, "")
    expected = set_text(page, after)
    set_text(page, "")
    set_text(page, before)
    assert set_text(page, after) == expected
    assert all(bool(name) == bool(strength) for _, name, strength in expected)


def test_a_second_text_can_be_removed_and_compared_again(page):
    set_text(page, "Good")
    for _ in range(2):
        page.run("compare('Bad, it broke.')")
        until(page, "panels.get(1).verdict !== null")
        assert page.run("return panels.get(1).values.length") > 10
        page.run("uncompare()")


def test_tab_writes_on_and_escape_lets_one_leave(page):
    page.type("#text0", "So good ")
    page.type("#text0", KEYS["Tab"])
    text = until(page, "panels.get(0).text.value.length > 12 && panels.get(0).text.value")
    assert text.startswith("So good")
    page.type("#text0", KEYS["Escape"])
    stopped = page.run("return panels.get(0).text.value")
    time.sleep(0.2)
    assert page.run("return panels.get(0).text.value") == stopped
    page.type("#text0", KEYS["Escape"] + KEYS["Tab"])
    assert page.run("return document.activeElement.id") != "text0"
    assert page.run("return panels.get(0).text.value") == stopped


def test_a_link_holds_both_texts_and_the_unit(page, small):
    page.run("panels.get(0).set('One & 😀')")
    page.run("document.getElementById('compare').click()")
    page.type("#text1", "Two\nlines")
    page.run("document.getElementById('unit').value = 7; look(7)")
    until(page, "location.hash.includes('Two')")
    address = page.run("return location.href")
    page.open("about:blank")
    load(page, address)
    texts = page.run("return [...panels.values()].map(({ text }) => text.value)")
    assert texts == ["One & 😀", "Two\nlines"]
    assert page.run("return document.getElementById('unit').value") == "7"
    assert "Unit 7: the" in until(page, "document.getElementById('difference').innerText")
    page.run("location.hash = 'text=Three'")  # as a link that is opened in the same tab
    until(page, "panels.get(0).text.value === 'Three'")
    assert page.run("return [panels.size, fragment()]") == [1, "text=Three"]


def test_a_text_that_is_cut_is_said_to_be_cut(page):
    long = "a" + 6000 * "😀"  # of two units each: half of one is at the limit
    status = "return document.getElementById('status').innerText"
    page.run("panels.get(0).text.focus()")
    for change in (
        lambda: page.devtools("Input.insertText", text=long),
        lambda: page.run("panels.get(0).set(arguments[0])", long),
    ):
        change()
        text = page.run("return encodeURIComponent(panels.get(0).text.value)")  # throws at a half
        assert text == quote(long[:5000])
        assert page.run(status) == "only the first 10,000 characters are read"
        page.run("panels.get(0).set('')")
        assert page.run(status) == ""


def test_label_and_colour_turn_at_the_classifiers_threshold(opened, small):
    page = opened(small[1], small_classifier(small[1]).with_threshold(0.64))
    page.run("document.querySelector('[value=probability]').click()")
    cases = [("naïve café, 很好, ไม่ชอบ", "negative", "low"), ("emoji 😀", "positive", "high")]
    for text, label, colour in cases:
        colours = [name for _, name, _ in set_text(page, text)]
        probability = page.run("return panels.get(0).probability")
        assert probability > 0.5
        assert (probability > 0.64) == (label == "positive")
        shown = "const find = (name) => panels.get(0).element.querySelector(name);"
        shown += "return [find('.label').innerText, find('.probability i').className]"
        said, shown_colour = page.run(shown)
        word = "unsure" if 0.54 <= probability <= 0.74 else label
        assert said == f"label: {word} (threshold 0.64)"
        assert shown_colour == colour
        each = "panels.get(0).pieces.map(({ end }) => sigmoid(panels.get(0).odds[end]))"
        beyond = ["high" if p >= 0.64 else "low" for p in page.run(f"return {each}")]
        assert colours == beyond


def test_it_fits_a_phone_and_asks_nobody(page):
    page.run("document.getElementById('compare').click()")
    page.type("#text0", "w" * 60)
    until(page, READ)
    lines = (  # of a large number, which may not be broken
        "const number = document.querySelector('.probability strong'), range = new Range();"
        "number.textContent = percent(1); range.selectNodeContents(number);"
        "return range.getClientRects().length"
    )
    for width in (320, 375, 390, 430):
        resize(page, width, 640)
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run(lines) == 1
    page.devtools("Emulation.clearDeviceMetricsOverride")
    sources = page.run("return performance.getEntriesByType('resource').map(({ name }) => name)")
    assert all(name.startswith("blob:") for name in sources)


def test_whatever_one_can_use_has_a_name(page):
    page.run("document.getElementById('compare').click()")
    page.devtools("Accessibility.enable")
    nodes = page.devtools("Accessibility.getFullAXTree")["nodes"]
    usable = {"button", "textbox", "slider", "checkbox", "radio", "spinbutton"}
    named = {
        node["role"]["value"]: node["name"]["value"]
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in usable
    }
    assert set(named) == usable
    assert all(named.values()), named


def test_a_unit_of_unknown_meaning_is_neither_green_nor_red(opened, small):
    page = opened(small[1], None)
    until(page, READ)
    assert "no probability" in page.run("return document.querySelector('header').innerText")
    legend = "return document.querySelector('.legend').innerText.split(/\\s+/)"
    assert page.run(legend) == ["low", "high"]
    assert page.run("return document.documentElement.dataset.palette") == "blue-orange"
    hidden = "return document.querySelector('.panel .probability').checkVisibility()"
    assert page.run(hidden) is False


def test_a_model_that_cannot_start_reports_it(chromium, small, tmp_path):
    page = small[0].read_text().replace('id="module">AGFzbQ', 'id="module">AAAAAA')
    (tmp_path / "page.html").write_text(page)
    chromium.open((tmp_path / "page.html").as_uri())
    status = "document.getElementById('status').innerText"
    assert "could not start" in until(chromium, f"!{status}.includes('loading') && {status}")
