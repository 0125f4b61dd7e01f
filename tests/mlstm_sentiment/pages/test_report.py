"""The report: its numbers are those of the rows, and no text of a row acts on the page."""

import json
import random
import re
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.head.answers import NO_ANSWER, word_of
from mlstm_sentiment.head.steps import Neutral
from mlstm_sentiment.pages import report as reports
from mlstm_sentiment.pages.report import (
    CLEAREST,
    FEW,
    LONGEST,
    QUOTES,
    SET_APART,
)
from mlstm_sentiment.pages.report import (
    _Report as Report,
)
from mlstm_sentiment.pages.report import _Share as Share
from mlstm_sentiment.pages.report import _time_chart as time_chart
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.table_model import TableModel
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.reading.texts import KeyChooser
from mlstm_sentiment.rows.phrases import _MOST_PHRASES
from mlstm_sentiment.rows.summary import Summary
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import LoadedModel
from tests.mlstm_sentiment.pages.hostile import NASTY
from tests.support.chromium import CHROMIUM, DRIVER, browser
from tests.support.heads import regression, star_head


@pytest.fixture
def classifier(small_model, tmp_path):
    weights = np.random.default_rng(0).normal(size=12).astype(np.float32)
    fitted = regression(weights, 0.0, ("negative", "positive"), 4, -1, "")
    return SentimentClassifier(LoadedModel(small_model, text_profile("openai"), tmp_path), fitted)


def report_of(classifier, rows, by=None, source="comments.csv"):
    """Return the report of rows, and its page."""
    rows = list(map(Record, rows))
    for number, row in enumerate(rows, start=1):
        row.place = f"{source}, line {number}"
    model = TableModel(by, lambda: ["comment"])
    for row in rows:
        model.add(row)
    summary = Summary(classifier.fitted, model, by)
    key = KeyChooser("comment")
    key.keys = key.requested
    read = SimpleNamespace(key=key, about="comma, UTF-8", source=Source(source))
    report = Report(classifier, summary, read, ())
    for row in rows:
        summary.add(row)
        report.add(row)
    return report, report.page(source)


def labelled(text, side, **more):
    """A row with a sure answer."""
    flags = {"unsure": False, "unfamiliar": False, "probability": 0.9 * (side == "positive")}
    return {"comment": text, "label": side, **flags, **more}


def data_of(page):
    """What the page's script gets."""
    packed = re.search(r'id="data">(.*?)</script>', page)[1]
    return json.loads(zlib.decompress(b64decode(packed)))


def drawn(count, seed=0):
    rng = np.random.default_rng(seed)
    for n in range(count):
        p = rng.uniform()
        flags = {"unsure": bool(0.4 < p < 0.6), "unfamiliar": n % 17 == 0}
        where = {"product": f"p{n % 3}", "day": f"2024-{1 + n % 5:02}-03"}
        if n % 13 == 0:
            yield {"comment": "", "label": NO_ANSWER, "probability": None, **flags, **where}
            continue
        word = word_of("positive" if p > 0.5 else "negative", **flags)
        yield {"comment": f"text number {n}", "label": word, "probability": p, **flags, **where}


class Page(HTMLParser):
    """The tags of a page, and the rows of its tables as text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.rows, self._cell = [], set(), [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag == "tr":
            self.rows.append([])
        self._cell = [] if tag == "td" else self._cell

    def handle_data(self, data):
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag):
        if tag == "td":
            self.rows[-1].append("".join(self._cell).strip())
            self._cell = None


def test_neutral_texts_have_a_share_of_their_own(classifier):
    fitted = star_head(neutral=Neutral(2))
    classifier = SentimentClassifier(classifier.model, fitted)
    rows = [
        {**row, "label": "neutral" if row["label"] == "unsure" else row["label"]}
        for row in drawn(200)
    ]
    _, page = report_of(classifier, rows)
    counts = Summary(fitted, TableModel())
    for row in rows:
        counts.add(row)
    assert counts.total["neutral"] > 0 == counts.total["unsure"]
    (cells,) = [row for row in Page(page).rows if row[:1] == ["neutral"]]
    count = counts.total["neutral"]
    assert cells[1:] == [f"{count}", in_words(count, counts.total.answered)]
    assert f"{counts.total.share('neutral'):.0%}".replace("%", "&nbsp;% neutral") in page
    assert f"<h2>Neutral: {counts.total['neutral']}</h2>" in page


def in_words(right, count):
    wilson = binomtest(right, count).proportion_ci(0.95, method="wilson")
    text = f"{right / count:.0%} ({wilson.low:.0%} to {wilson.high:.0%})"
    return text.replace("%", " %")


def test_the_numbers_are_those_of_the_rows(classifier):
    rows = list(drawn(200))
    _, page = report_of(classifier, rows, "product")
    table = {row[0]: row[1:] for row in Page(page).rows if row}
    answered = [r for r in rows if r["label"] != NO_ANSWER and not r["unfamiliar"]]
    negative = [r for r in answered if r["label"] == "negative"]
    assert table["negative"] == [str(len(negative)), in_words(len(negative), len(answered))]
    assert table["all rows"][0] == "200"
    assert table["no answer (set apart)"][0] == str(sum(r["label"] == NO_ANSWER for r in rows))
    for key, names in (("product", ["p0", "p1", "p2"]), ("day", ["2024-01", "2024-05"])):
        for name in names:
            own = [r for r in answered if r[key].startswith(name)]
            right = sum(r in negative for r in own)
            assert table[name][:2] == [str(len(own)), in_words(right, len(own))]
    assert "(column day)" in page


def test_the_clearest_texts_are_shown_in_colour(classifier):
    rows = list(drawn(200))
    _, page = report_of(classifier, rows)
    sure = [r for r in rows if r["label"] != NO_ANSWER and not r["unsure"] and not r["unfamiliar"]]
    ordered = sorted(sure, key=lambda row: row["probability"])
    quotes = re.findall(r'<blockquote class="mirror">(.*?)<footer>', page, re.DOTALL)
    texts = clearest_texts(page)
    chosen = [*ordered[:CLEAREST], *ordered[::-1][:CLEAREST]]
    assert texts == [row["comment"] for row in chosen]
    assert all(
        quote.count("<span class=") == len(t) for quote, t in zip(quotes, texts, strict=True)
    )


def clearest_texts(page):
    """The coloured texts without their colours: those of the negative rows first."""
    quotes = re.findall(r'<blockquote class="mirror">(.*?)<footer>', page, re.DOTALL)
    return [re.sub("<.*?>", "", quote) for quote in quotes]


def test_long_texts_are_cut_visibly_and_equal_ones_are_folded_by_their_whole_text(classifier):
    begin = "a" * LONGEST
    texts = [begin, begin + "b", begin + "c", begin + "b"]
    rows = [labelled(text, "positive") for text in texts]
    # A corrected text is not one of the clearest.
    _, page = report_of(classifier, [*rows, labelled("x", "negative", probability=0.9)])
    assert clearest_texts(page) == [begin, begin + "\u2026", begin + "\u2026"]
    data = data_of(page)
    assert data["texts"] == [*clearest_texts(page), "x"]
    assert data["places"] == ["line 1", "line 2", "line 3", "line 5"]
    assert data["times"] == [1, 2, 1, 1]
    assert "line 2, 2 times" in page


@pytest.mark.parametrize("label", ["positive", NO_ANSWER])
def test_a_chart_over_time_needs_two_months_with_answers(classifier, label):
    answers = {1: "positive", 2: label}
    rows = [labelled("a", word, day=f"2024-0{month}-03") for month, word in answers.items()]
    _, page = report_of(classifier, rows)
    assert ("by month" in page) is (label != NO_ANSWER)


def reviews(count, words=12):
    """Rows of random words, one in three negative, with groups and dates."""
    rng = random.Random(0)
    vocabulary = [*["the", "and"] * 50, *(f"word{n}" for n in range(3000))]
    for n in range(count):
        side = rng.choice(["negative", "positive", "positive"])
        said = " ".join(rng.choices(vocabulary, k=words))
        said += " and it broke" if side == "negative" and n % 5 == 0 else ""
        yield labelled(said, side, shop=f"shop {n % 9}", day=f"2024-{1 + n % 12:02}-03")


def test_memory_and_page_are_bounded(classifier, monkeypatch):
    monkeypatch.setattr(reports, "PAGE_BYTES", 90_000)
    rows = [*reviews(2000), *(row | {"comment": f"{n} x"} for n, row in enumerate(drawn(200)))]
    _, page = report_of(classifier, rows, "shop")
    shown = len(data_of(page)["places"])
    assert 70_000 < len(page.encode()) <= 90_000
    assert f"All texts (the first {shown:,} of 2,200)" in page
    monkeypatch.setattr(reports, "KEPT_CHARACTERS", 5000)
    report, page = report_of(classifier, rows, "shop")
    assert sum(len(entry.text) for entry in report.entries) <= 5000
    kept = sum(entry.count for entry in report.entries)
    assert f"{2200 - kept:,} further rows were not looked at" in page
    assert page.count("<blockquote>") <= 2 * _MOST_PHRASES * QUOTES + 4 * SET_APART


COMPLAINTS = [
    labelled(f"{n} days and the lid broke, of {n + 3} shops", "negative") for n in range(20)
]
OTHERS = [labelled(f"{n} days and the lamp shone, of {n + 3} shops", "positive") for n in range(30)]


def test_a_phrase_has_counts_quotes_and_a_filter_of_its_rows(classifier):
    report, page = report_of(classifier, [*OTHERS, *COMPLAINTS, labelled("A lid", "positive")])
    phrase = report.comparisons[0].phrases[0]
    assert phrase.name == "lid broke"
    assert "20 of 20 negative texts, 0 of 31 others" in page
    panel = page[page.index("What the negative texts have") : page.index("What the positive")]
    quotes = re.findall(r"<blockquote>(.*?)<footer>line (\d+)</footer>", panel)
    assert len({place for _, place in quotes[:QUOTES]}) == QUOTES
    assert all("the <mark>lid broke</mark>, of" in quote for quote, _ in quotes[:QUOTES])
    assert 'data-phrase="0" data-answer="negative">Show all 20' in panel
    assert data_of(page)["phrases"][0] == ["lid broke", [*range(30, 50)]]
    assert report.lines()[1].split()[:4] == ["lid", "broke", "20", "0"]


def test_the_worst_group_comes_first_and_those_with_few_texts_last(classifier):
    rows = [
        labelled(f"{n} of {shop.lower() * 3}{n}", "negative" if n < bad else "positive", shop=shop)
        for shop, size, bad in [("A", 25, 5), ("B", FEW - 1, FEW - 1), ("C", 30, 24), ("D", 25, 20)]
        for n in range(size)
    ]  # fmt: skip
    rows += [r | {"comment": f"queue {r['comment']}"} for r in rows if r["shop"] == "D"]
    _, page = report_of(classifier, rows, "shop")
    groups = [row for row in Page(page).rows if row and row[0] in "ABCD"]
    assert [row[0] for row in groups] == ["C", "D", "A", "B"]
    assert [row[1] for row in groups] == ["30", "50", "25", f"{FEW - 1} (few)"]
    assert [row[4] for row in groups] == ["", "queue (20)", "", ""]
    assert f"fewer than {FEW} texts" in page


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver")
def test_the_table_is_paged_searched_sorted_and_filtered_in_a_browser(classifier, tmp_path):
    rows = [*OTHERS, *COMPLAINTS, *reviews(200), *COMPLAINTS[:3]]
    rows = [{"day": "2024-01-01", "shop": "<b>shop & co</b>"} | row for row in rows]
    page = tmp_path / "page.html"
    page.write_text(report_of(classifier, rows, "shop")[1])
    with browser(tmp_path / "profile") as session:
        session.open(page.as_uri())

        def after(script):
            session.run(script)
            cells = "[...document.querySelectorAll('td.text')].map((cell) => cell.textContent)"
            return session.run(f"return [document.getElementById('found').textContent, {cells}]")

        said, first = after("")
        assert said == "250 texts in 253 rows, equal ones shown once; 1 to 100 are shown"
        assert first == [row["comment"] for row in rows[:100]]
        said, last = after("for (const n of [1, 2]) document.getElementById('after').click()")
        assert last == [row["comment"] for row in rows[200:250]]
        assert said.endswith("201 to 250 are shown")
        said, found = after("document.querySelector('[data-phrase=\"0\"]').click()")
        assert found == [row["comment"] for row in COMPLAINTS]
        assert said == "20 texts in 23 rows, equal ones shown once"
        said, found = after("document.querySelector('#filter button').click()")
        assert said.startswith("250 texts")
        session.type("#search", 'SHOPS "lid broke" <b>shop')
        assert after("")[0].startswith("20 texts")
        said, found = after("document.querySelectorAll('#rows th button')[1].click()")
        assert found == sorted(row["comment"] for row in COMPLAINTS)
        assert after("document.querySelectorAll('#rows th button')[1].click()")[1] == found[::-1]


@pytest.mark.parametrize("nasty", [*NASTY, "{{panels}}", "</script><script>x", "a" * 5000])
def test_no_text_of_a_row_acts_on_the_page(classifier, nasty):
    rows = [
        {"comment": nasty, "product": nasty, "day": "2024-01-01", nasty: nasty, "label": label,
         "probability": p, "unsure": unsure, "unfamiliar": unfamiliar}
        for label, p, unsure, unfamiliar in [
            ("positive", 0.9, False, False), ("negative", 0.1, False, False),
            ("unsure", 0.5, True, False), ("unfamiliar", 0.5, False, True),
        ]
    ]  # fmt: skip
    _, page = report_of(classifier, rows, "product", source=f"/a/{nasty}")
    tame = [{**row, "comment": "good", "product": "a", nasty: 1} for row in rows]
    _, expected = report_of(classifier, tame, "product")
    nasty_page, usual = Page(page), Page(expected)
    tags = [tag for tag in nasty_page.tags if tag not in ("span", "tr", "td")]
    assert tags == [tag for tag in usual.tags if tag not in ("span", "tr", "td")]
    assert nasty_page.attributes == usual.attributes
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", page)


def test_rows_that_are_no_answer_are_listed_with_the_reason(classifier):
    nothing = {"label": NO_ANSWER, "probability": None, "unsure": None, "unfamiliar": None}
    _, page = report_of(classifier, [{"comment": "", **nothing}])
    assert "No text got an answer." in page
    assert "nan" not in page
    texts = ["", "N/A", "#REF!", "comment", None, "a word that a person took for none", "N/A"]
    _, page = report_of(classifier, [{"comment": text, **nothing} for text in texts])
    quotes = re.findall(r"<blockquote>(.*?)<footer>(.*?)</footer>", page)
    assert quotes == [
        ("N/A", "line 2, 2 times: nothing was written"),
        ("#REF!", "line 3: it is an error of a spreadsheet"),
        ("comment", "line 4: it repeats the header"),
        ("a word that a person took for none", "line 6"),
    ]
    assert "<h2>No answer: 7</h2>" in page
    data = data_of(page)
    assert data["times"] == [2, 2, 1, 1, 1]
    assert data["reasons"][0] == "there is no text"
    assert data["sentiment"] == [None] * 5


@pytest.mark.parametrize("months", [[1, 2, 3], [1, 2, 11], [1, 41, 42, 43, 44], range(9)])
def test_a_chart_has_gaps_where_months_are_missing(months):
    points = [Share(f"{month}", 0.25, 0.2, 0.3, 40) for month in months]
    chart = time_chart(points, months, "share")
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', chart)]
    parts = [(place - places[0]) / (places[-1] - places[0]) for place in places]
    span = months[-1] - months[0]
    assert parts == pytest.approx([(month - months[0]) / span for month in months], abs=1e-3)
    labels = [float(x) for x in re.findall(r'class="under" x="([\d.]+)%"', chart)]
    assert min(after - label for label, after in pairwise(labels)) > 20  # per cent of the width
