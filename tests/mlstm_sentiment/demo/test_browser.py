"""The page in headless Chromium: what a person does with it, and its numbers against Python's."""

import math
import random
import time
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pytest

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.demo import demo_page
from mlstm_sentiment.engine import Engine
from mlstm_sentiment.head.head_files import find_classifier, load_fitted
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
WORDS = [
    *("the", "film", "battery", "lamp", "it", "was", "is", "not", "and", "but", "very", "great"),
    *("awful", "love", "hate", "broke", "works", "réussi", "&amp;", "100%", "$5", "...", "\n"),
    *("😀", "👎", "👩‍👩‍👧", "جميل", "سيء", "الكتاب"),
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


def texts_of_many_kinds(count: int) -> list[str]:
    draw = random.Random(7)
    return [*TEXTS, *(" ".join(draw.choices(WORDS, k=draw.randint(1, 40))) for _ in range(count))]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stars_1024", "amazon_1024", "amazon_subword_1024"])
def test_two_hundred_texts_have_the_numbers_of_python(opened, name):
    loaded = Engine.load(name)
    classifier = load_fitted(loaded, find_classifier(loaded), "")
    compare(opened(loaded, classifier), loaded, classifier, texts_of_many_kinds(200 - len(TEXTS)))


def test_an_answer_is_counted_as_the_command_counts_it(opened):
    """No answer, unfamiliar, neutral, unsure, or one of the two classes; the page says so."""
    loaded = Engine.load("default_small")
    fitted = load_fitted(loaded, find_classifier(loaded), "")
    page = opened(loaded, fitted)
    texts = ["", " \n\u3000", "N/A", "a", "&nbsp;", "zxqj vvkw qqqq zzxj kkqx jjzx", "I love it.",
             "It broke at once, a waste of money.", "The parcel came on a Tuesday.",
             "Not bad.", "<p>I love it.</p><br />", "<br />"]  # fmt: skip
    classifier, answers = SentimentClassifier(loaded, fitted), []
    for text in texts:
        word = page.run("return await sentimentNeuron.read(arguments[0])", text)["word"]
        assert word == classifier(text)["label"], repr(text)
        set_text(page, text)
        answers.append((word, page.run("return document.querySelector('.label').innerText")))
    assert {word for word, _ in answers} == {
        *("no answer", "unfamiliar", "neutral", "unsure", "negative", "positive")
    }
    for word, label in answers:
        assert label.startswith(f"label: {word}")


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


def test_the_curve_lies_under_the_letters_of_every_line(page):
    set_text(page, "It started well, and I loved it. Then it broke at once. " * 3 + "Fine.")
    script = (
        "const panel = panels.get(0), box = panel.mirror.getBoundingClientRect();"
        "const path = panel.element.querySelector('.line').getAttribute('d');"
        "const lines = path.slice(1).split('M').map((line) => line.split('L').map((point) =>"
        "point.split(',').map(Number)));"
        "const zeros = [...panel.element.querySelectorAll('.trace text')];"
        "const letters = [...panel.mirror.children].map((span) => {"
        "const r = span.getBoundingClientRect();"
        "return [r.left - box.left, r.right - box.left, r.bottom - box.top]; });"
        "return { lines, letters, zeros: zeros.map((zero) => zero.textContent) }"
    )
    for width in (900, 390):
        resize(page, width, 800)
        time.sleep(0.3)  # the page draws it again
        drawn = page.run(script)
        points = [point for line in drawn["lines"] for point in line]
        letters = [letter for letter in drawn["letters"] if letter[1] > letter[0]]
        assert len(points) == len(letters)
        assert drawn["zeros"] == ["0"] * len(drawn["lines"])
        assert len(drawn["lines"]) > 1
        size = 2 * 22.4  # pixels of two letters: the gap between two lines is narrower
        for (x, y), (left, right, bottom) in zip(points, letters, strict=True):
            assert left - 0.1 <= x <= right + 0.1
            assert bottom <= y <= bottom + size
    page.devtools("Emulation.clearDeviceMetricsOverride")


def test_calls_made_together_answer_as_those_made_one_by_one(page):
    calls = (
        "const calls = [() => sentimentNeuron.read('It broke at once.'),"
        "() => sentimentNeuron.write('It is', { length: 9 }), () => sentimentNeuron.read('Fine.')];"
    )
    one_by_one = "const all = []; for (const call of calls) all.push(await call()); return all;"
    together = "return await Promise.all(calls.map((call) => call()));"
    assert page.run(calls + together) == page.run(calls + one_by_one)


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
    time.sleep(0.1)  # a frame
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


def test_letters_that_are_not_read_yet_have_no_colour(page):
    set_text(page, "It broke at once. " * 20)
    page.run(
        "const panel = panels.get(0); panel.letters();"
        "panel.take({ serial: panel.serial, from: 3, values: [0.5], odds: [0.5], done: false });"
        "panel.show()"
    )
    coloured = [bool(strength) for _, _, strength in colours_of(page)]
    assert all(coloured[:2])  # bytes 2 and 3, after the two of the opening
    assert not any(coloured[2:])


def test_a_second_text_can_be_removed_and_compared_again(page):
    set_text(page, "Good")
    for _ in range(2):
        page.run("compare('Bad, it broke.')")
        until(page, "panels.get(1).verdict !== null")
        assert page.run("return panels.get(1).values.length") > 10
        page.run("uncompare()")


def test_a_text_removed_at_once_is_not_written_on(page):
    script = "compare('Bad'); const going = writeOn(panels.get(1)); uncompare(); await going;"
    assert page.run(script + "return writer") is None


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


def test_a_clamped_unit_changes_what_is_written(page):
    script = (
        "const clamp = arguments[0] === null ? null : { unit: 4, value: arguments[0] };"
        "return await sentimentNeuron.write('It is', { length: 30, clamp })"
    )
    free, low, high = (page.run(script, value) for value in (None, -9, 9))
    assert len({free, low, high}) == 3


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


def test_equal_texts_are_said_to_be_equal_and_none_is_compared_with_an_empty_one(page):
    set_text(page, "Good")
    page.run("compare('Good')")
    said = until(page, "document.getElementById('difference').innerText")
    assert said == "Both texts are equally likely positive. Unit 4: both texts are equally high."
    page.run("compare('Bad, it broke.')")
    until(page, "document.getElementById('difference').innerText.includes('text is higher by')")
    page.run("compare('')")
    until(page, "panels.get(1).verdict !== null")
    assert page.run("return document.getElementById('difference').hidden")


FULL = "only the first 10,000 characters are read"


@pytest.mark.parametrize("how", ["paste", "link"])
def test_a_text_that_is_cut_is_said_to_be_cut(page, how):
    long = "a" + 6000 * "😀"  # of two units each: half of one is at the limit
    if how == "paste":
        page.run("panels.get(0).text.focus()")
        page.devtools("Input.insertText", text=long)
    else:
        page.run("panels.get(0).set(arguments[0])", long)
    text = page.run("return encodeURIComponent(panels.get(0).text.value)")  # throws at a half
    assert text == quote(long[:5000])
    status = "return document.getElementById('status').innerText"
    assert page.run(status) == FULL
    page.run("compare('Short')")
    assert page.run(status) == FULL
    page.run("panels.get(0).set('Short')")
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
