"""The report: its numbers are those of the rows, and no text of a row acts on the page."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binomtest

from model import SentimentClassifier
from model.classifiers import summary as summaries
from model.classifiers.answers import NO_ANSWER, word_of
from model.classifiers.steps import Neutral
from model.classifiers.summary import Summary
from model.files.weights import LoadedModel
from model.pages.charts import Share, share_bar, stacked_bar, time_chart
from model.pages.report import CLEAREST, LONGEST, ROWS, SET_APART, Report
from model.reading.table_model import TableModel
from model.text.profiles import text_profile
from tests.model.pages.hostile import NASTY
from tests.support.heads import regression, star_head


@pytest.fixture
def classifier(small_model, tmp_path):
    weights = np.random.default_rng(0).normal(size=12).astype(np.float32)
    fitted = regression(weights, 0.0, ("negative", "positive"), 4, -1, "")
    return SentimentClassifier(LoadedModel(small_model, text_profile("openai"), tmp_path), fitted)


def report_of(classifier, rows, by=None, source="comments.csv"):
    """Return the report of rows, and its page."""
    rows = list(rows)
    model = TableModel(by, lambda: ["comment"])
    for row in rows:
        model.add(row)
    summary = Summary(classifier.fitted, by, model=model)
    report = Report(classifier, summary, lambda: "comment", ["label", "probability"])
    for row in rows:
        report.add(row, summary.add(row))
    return report, report.page(source)


def drawn(count, seed=0):
    rng = np.random.default_rng(seed)
    for n in range(count):
        p = rng.uniform()
        is_unsure, is_unfamiliar = bool(0.4 < p < 0.6), n % 17 == 0
        side = "positive" if p > 0.5 else "negative"
        word = word_of(side, unsure=is_unsure, unfamiliar=is_unfamiliar)
        label = NO_ANSWER if n % 13 == 0 else word
        yield {
            "comment": "" if label == NO_ANSWER else f"text number {n}",
            "product": f"p{n % 3}",
            "day": f"2024-{1 + n % 5:02}-03",
            "label": label,
            "probability": None if label == NO_ANSWER else p,
            "unsure": is_unsure,
            "unfamiliar": is_unfamiliar,
        }


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
    report, page = report_of(classifier, rows)
    counts = Summary(fitted)
    for row in rows:
        counts.add(row)
    assert counts.total["neutral"] > 0 == counts.total["unsure"]
    (cells,) = [row for row in Page(page).rows if row[:1] == ["neutral"]]
    assert cells[1:] == [
        f"{counts.total['neutral']}",
        in_words(counts.total["neutral"], counts.total.answered),
    ]
    assert f"{counts.total.share('neutral'):.0%}".replace("%", "&nbsp;% neutral") in page
    assert f"<h2>Neutral: {counts.total['neutral']}</h2>" in page
    assert all(row.outcome != "neutral" for heap in report._clearest for _, _, row in heap)


def in_words(right, count):
    wilson = binomtest(right, count).proportion_ci(0.95, method="wilson")
    text = f"{right / count:.0%} ({wilson.low:.0%} to {wilson.high:.0%})"
    return text.replace("%", " %")


def test_the_numbers_are_those_of_the_rows(classifier):
    rows = list(drawn(200))
    _, page = report_of(classifier, rows, "product")
    table = {row[0]: row[1:] for row in Page(page).rows if row}
    answered = [r for r in rows if r["label"] != NO_ANSWER and not r["unfamiliar"]]
    positive = [r for r in answered if r["label"] == "positive" and not r["unsure"]]
    assert table["positive"] == [str(len(positive)), in_words(len(positive), len(answered))]
    assert table["all rows"][0] == "200"
    assert table["no answer (set apart)"][0] == str(sum(r["label"] == NO_ANSWER for r in rows))
    for key, names in (("product", ["p0", "p1", "p2"]), ("day", ["2024-01", "2024-05"])):
        for name in names:
            own = [r for r in answered if r[key].startswith(name)]
            right = sum(r in positive for r in own)
            assert table[name][:2] == [str(len(own)), in_words(right, len(own))]
    assert "(column day)" in page


def test_a_late_date_decides_whether_days_come_first(classifier):
    rows = list(drawn(200))
    for n, row in enumerate(rows):
        row["day"] = "soon" if n == 1 else f"{1 + n // 13:02}/{3 + n % 2:02}/2024"
    _, page = report_of(classifier, rows)
    months = [row[0] for row in Page(page).rows if row and row[0].startswith("2024")]
    assert months == ["2024-03", "2024-04"]
    assert "Without a date, and left out: 1." in page
    _, undecided = report_of(classifier, rows[:150])
    assert "3/4/2024 is taken as March 4" in undecided
    assert "3/4/2024" not in page


def test_one_wrong_date_does_not_hide_the_others(classifier):
    rows = list(drawn(200))
    for n, row in enumerate(rows):
        row["day"] = f"2024-{1 + n % 12:02}-03" if n % 25 else "1970-01-01"
    _, page = report_of(classifier, rows)
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', page)]
    assert len(places) == 13
    assert places[-1] - places[1] > (places[-1] - places[0]) / 2


def test_the_clearest_texts_are_shown_in_colour(classifier):
    rows = list(drawn(200))
    _, page = report_of(classifier, rows)
    sure = [r for r in rows if r["label"] != NO_ANSWER and not r["unsure"] and not r["unfamiliar"]]
    ordered = sorted(sure, key=lambda row: row["probability"])
    quotes = re.findall(r'<blockquote class="mirror">(.*?)<footer>', page, re.DOTALL)
    texts = clearest_texts(page)
    chosen = [*ordered[::-1][:CLEAREST], *ordered[:CLEAREST]]
    assert texts == [row["comment"] for row in chosen]
    assert all(
        quote.count("<span class=") == len(t) for quote, t in zip(quotes, texts, strict=True)
    )


def clearest_texts(page):
    """The quoted texts without their colours: those of the positive rows first."""
    quotes = re.findall(r'<blockquote class="mirror">(.*?)<footer>', page, re.DOTALL)
    return [re.sub("<.*?>", "", quote) for quote in quotes]


def test_a_corrected_text_is_not_one_of_the_clearest(classifier):
    likely = {"unsure": False, "unfamiliar": False, "probability": 0.9}
    rows = [
        {"comment": "good", "label": "positive", **likely},
        {"comment": "corrected", "label": "negative", **likely},
    ]
    _, page = report_of(classifier, rows)
    assert clearest_texts(page) == ["good"]


def test_long_texts_are_cut_visibly_and_differ_by_their_whole_text(classifier):
    likely = {"label": "positive", "unsure": False, "unfamiliar": False}
    begin = "a" * LONGEST
    texts = [begin, begin + "b", begin + "c", begin + "b"]
    rows = [
        {"comment": text, "probability": 0.9 - n / 100, **likely} for n, text in enumerate(texts)
    ]
    _, page = report_of(classifier, rows)
    assert clearest_texts(page) == [begin, begin + "\u2026", begin + "\u2026"]


def test_more_groups_than_are_counted_are_reported(classifier, monkeypatch):
    monkeypatch.setattr(summaries, "MOST_GROUPS", 2)
    assert "Only the first 2 groups" in report_of(classifier, drawn(50), "product")[1]
    monkeypatch.setattr(summaries, "MOST_GROUPS", 3)
    assert "Only the first" not in report_of(classifier, drawn(50), "product")[1]


@pytest.mark.parametrize("label", ["positive", NO_ANSWER])
def test_a_chart_over_time_needs_two_months_with_answers(classifier, label):
    rows = [
        {"comment": "a", "day": f"2024-0{month}-03", "label": answer, "probability": 0.9,
         "unsure": False, "unfamiliar": False}
        for month, answer in [(1, "positive"), (2, label)]
    ]  # fmt: skip
    _, page = report_of(classifier, rows)
    assert ("by month" in page) is (label != NO_ANSWER)


def test_memory_and_page_are_bounded(classifier):
    rows = list(drawn(ROWS + 500))
    report, page = report_of(classifier, rows)
    assert page.count("<blockquote>") <= 2 * SET_APART
    assert f"Rows (the first {ROWS:,} of {ROWS + 500:,})" in page
    assert len(report._rows) == ROWS


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


def test_a_page_without_answers_is_a_page(classifier):
    row = {
        "comment": "",
        "label": NO_ANSWER,
        "probability": None,
        "unsure": None,
        "unfamiliar": None,
    }
    _, page = report_of(classifier, [row])
    assert "No text got an answer." in page
    assert "nan" not in page


def test_rows_that_are_no_answer_are_listed_with_the_reason(classifier):
    nothing = {"label": NO_ANSWER, "probability": None, "unsure": None, "unfamiliar": None}
    texts = ["", "N/A", "#REF!", "comment", None, "a word that a person took for none"]
    _, page = report_of(classifier, [{"comment": text, **nothing} for text in texts])
    quotes = re.findall(r"<blockquote>(.*?)<footer>(.*?)</footer>", page)
    assert quotes == [
        ("N/A", "row 2: nothing was written"),
        ("#REF!", "row 3: it is an error of a spreadsheet"),
        ("comment", "row 4: it repeats the header"),
        ("a word that a person took for none", "row 6"),
    ]
    assert "<h2>No answer: 6</h2>" in page
    answers = [row[2] for row in Page(page).rows if len(row) == 4]
    assert answers[0] == answers[4] == "no answer (there is no text)"
    assert answers[1] == "no answer (nothing was written)"
    assert answers[5] == "no answer"


def test_charts_are_drawn_in_percentages():
    month = Share("2024-01", 0.25, 0.2, 0.3, 40)
    assert 'width="25.00%"' in share_bar(month)
    assert 'x1="20.00%" x2="30.00%"' in share_bar(month)
    assert 'x="25.00%" width="75.00%"' in stacked_bar([("high", "a", 0.25), ("low", "b", 0.75)])
    chart = time_chart([month, month._replace(name="<x>", value=1.0)], [1, 2], 'a "share"')
    assert chart.count("<circle") == 2
    assert chart.count('class="trend"') == 1
    assert "<x>" not in chart
    assert 'aria-label="a &quot;share&quot;"' in chart


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
