"""The counts at the end of `classify`, and the dates that a report is drawn by."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from mlstm_sentiment.engine.request import Familiarity
from mlstm_sentiment.head.answers import NO_ANSWER, word_of
from mlstm_sentiment.head.steps import Neutral
from mlstm_sentiment.reading import table_model
from mlstm_sentiment.reading.table_model import OTHER_GROUPS, TableModel
from mlstm_sentiment.rows import summary as summaries
from mlstm_sentiment.rows.summary import DOUBTED, SHOWN_GROUPS, Summary, Tally
from tests.support.heads import regression, star_head

UNTESTED = regression(np.zeros(2))
KNOWN = Familiarity(bits_per_character=2.0, bits=30.0)
TWO = replace(UNTESTED, familiarity=KNOWN)


def row(label, unsure=False, unfamiliar=False, **more):
    return {"label": label, "unsure": unsure, "unfamiliar": unfamiliar, **more}


def counting(fitted, by=None, rows=(), **options):
    """A summary whose table has these rows, to which others may be added."""
    model = TableModel(by)
    summary = Summary(fitted, model, by, **options)
    for each in rows:
        model.add(each)
    for each in rows:
        summary.add(each)
    return summary


def test_every_row_is_counted_once():
    summary = counting(TWO, "product")
    rows = [
        *[row("positive", product="a")] * 5,
        *[row("negative", product="b")] * 2,
        row("unsure", unsure=True, product="b"),
        row("unfamiliar", unsure=True, unfamiliar=True, product="b"),
        row(NO_ANSWER, None, None, product=None),
    ]
    for each in rows:
        summary.add(each)
    summary.tagged = 3
    first, *table = summary.lines()
    assert first == (
        "10 rows: 5 positive (62 %), 1 unsure (12 %), 2 negative (25 %), 1 unfamiliar, "
        "1 no answer; shares of the 8 answered; HTML tags left out in 3"
    )
    assert [line.split() for line in table] == [
        ["by", "product", "rows", "positive", "unsure", "negative", "unfamiliar", "no", "answer"],
        ["a", "5", "5", "0", "0", "0", "0"],
        ["b", "4", "0", "1", "2", "1", "0"],
        ["(none)", "1", "0", "0", "0", "0", "1"],
    ]
    assert sum(tally.total() for tally in summary.groups.values()) == 10


STARS = star_head(neutral=Neutral(2), familiarity=KNOWN)
THREE = regression(np.zeros((3, 2)), np.zeros(3), ("1", "2", "3"))


@pytest.mark.parametrize(
    ("summary", "rows", "line"),
    [
        # A column of the input may be named labels.
        (counting(TWO), [row("positive", labels="bug, ui"), row(NO_ANSWER, labels=[])],
         "1 positive (100 %), 0 unsure (0 %), 0 negative (0 %), 0 unfamiliar, 1 no answer; "
         "shares of the 1 answered"),
        (counting(UNTESTED), [row("positive", None, None)],
         "1 positive (100 %), 0 unsure (0 %), 0 negative (0 %), 0 unfamiliar, 0 no answer; "
         "other languages not tested"),
        (counting(STARS),
         [row("neutral", unsure=True), row("unsure", unsure=True), row("positive")],
         "1 positive (33 %), 1 neutral (33 %), 1 unsure (33 %), 0 negative (0 %), 0 unfamiliar, "
         "0 no answer"),
        (counting(STARS, sides=True),
         [row("negative", True, sides=True), row("positive", False, True, sides=True)],
         "1 positive (50 %), 1 negative (50 %), 0 no answer; two sides only, as asked; "
         "1 of them unfamiliar"),
        (counting(THREE), [row("2", None, None)],
         "0 1 (0 %), 1 2 (100 %), 0 3 (0 %), 0 unfamiliar, 0 no answer; "
         "other languages not tested"),
    ],
)  # fmt: skip
def test_the_line_has_the_answers_of_its_kind(summary, rows, line):
    for each in rows:
        summary.add(each)
    assert summary.lines()[0].partition(": ")[2] == line


def test_of_several_labels_each_is_counted_by_the_rows_that_have_it():
    summary = counting(replace(THREE, several_labels=True), "shop")
    for labels in (["1", "3"], ["3"], [], None):
        summary.add({"labels": labels, "unfamiliar": None, "shop": "a"})
    first, head, shop = summary.lines()
    assert first == (
        "4 rows: 1 1 (33 %), 0 2 (0 %), 2 3 (67 %), 1 no label (33 %), 0 unfamiliar, 1 no answer; "
        "shares of the 3 answered; a row may have several labels; other languages not tested"
    )
    names = ["1", "2", "3", "no", "label", "unfamiliar", "no", "answer"]
    assert head.split() == ["by", "shop", "rows", *names]
    assert shop.split() == ["a", "4", "1", "0", "2", "1", "0", "1"]


@pytest.mark.parametrize(("foreign", "is_doubted"), [(1, False), (2, True)])
@pytest.mark.parametrize("sides", [False, True])
def test_many_unfamiliar_rows_make_the_others_doubtful(foreign, is_doubted, sides):
    summary = counting(TWO, sides=sides)
    for number in range(5):
        is_foreign = "True" if number < foreign else False  # a cell of a file, or a value
        label = "unfamiliar" if is_foreign and not sides else "positive"
        summary.add(row(label, unfamiliar=is_foreign))
    assert (DOUBTED in summary.lines()) == is_doubted


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({}, "positive"),
        ({"unsure": True}, "unsure"),
        ({"is_neutral": True, "unsure": True}, "neutral"),
        ({"unfamiliar": True, "is_neutral": True, "unsure": True}, "unfamiliar"),
        ({"unfamiliar": None, "unsure": None}, "positive"),
    ],
)
def test_the_first_that_holds_is_the_answer(flags, word):
    assert word_of("positive", **flags) == word


def test_small_groups_are_added_up():
    summary = counting(TWO, "id")
    for number in range(3000):
        summary.add(row("positive", id=number))
    for _ in range(2):
        summary.add(row("negative", id="x\x1b[31m" + "y" * 100))
    shown = summary.largest_groups()
    assert list(shown)[-1] == OTHER_GROUPS
    assert sum(tally.total() for tally in shown.values()) == 3002
    assert next(iter(shown)).endswith("y")  # the largest, although it came last
    assert "\x1b" not in "".join(summary.lines())


def test_more_groups_than_are_counted_are_reported(monkeypatch):
    for module in (table_model, summaries):
        monkeypatch.setattr(module, "MOST_GROUPS", 3)
    summary = counting(TWO, "id")
    for name in (OTHER_GROUPS, 1, 2):
        summary.add(row("positive", id=name))
    assert not summary.limit_note
    summary.add(row("positive", id=3))
    assert summary.lines()[-1] == "Only the first 3 groups are counted separately."
    assert summary.groups[OTHER_GROUPS].total() == 2  # one of that name
    assert len(summary.model._names) == 4  # with that of the empty cells


@pytest.mark.parametrize(("count", "right"), [(10, 7), (500, 500), (3, 0), (0, 0)])
def test_intervals_are_wilsons(count, right):
    tally = Tally({"positive": right, "negative": count - right, "unfamiliar": 9, "no answer": 9})
    assert tally.answered == count
    if not count:
        assert math.isnan(tally.share("positive"))
        assert tally.interval("positive") == (0.0, 1.0)
        return
    wilson = binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert tally.interval("positive") == pytest.approx((wilson.low, wilson.high), abs=1e-6)


def test_dates_are_grouped_by_month():
    cells = ["2024-03-05", "2024-02-01", "2024-03-06", "", "2024-03-30 10:00", math.nan, "soon"]
    cells += ["2024-01-07"] * 6
    summary = counting(TWO, "when", [row("positive", when=when) for when in cells])
    sizes = [("(none)", 2), ("2024-01", 6), ("2024-02", 1), ("2024-03", 3), ("soon", 1)]
    assert [(name, tally.total()) for name, tally in summary.largest_groups().items()] == sizes
    summary = counting(TWO, "when", [row("positive", when="3/4/2024")])  # which month is not known
    assert list(summary.groups) == ["2024-03"]
    assert "taken as March 4" in summary.lines()[-1]
    later = row("positive", when="25/4/2024")  # shows it, for the row above, too
    summary.model.add(later)
    summary.add(later)
    assert list(summary.groups) == ["2024-04"]
    assert len(summary.lines()) == 3


@pytest.mark.parametrize("growth", [0, 1])
def test_of_many_months_the_largest_are_shown_in_their_order(growth):
    months = [f"{2022 + n // 12}-{1 + n % 12:02}" for n in range(SHOWN_GROUPS + 10)]
    rows = [
        row("positive", when=f"{month}-05")
        for number, month in enumerate(months)
        for _ in range(1 + growth * number)
    ]
    summary = counting(TWO, "when", rows)
    assert list(summary.largest_groups()) == [*months[10:], OTHER_GROUPS]
