"""Dates: written in any common way, read in one order a column, and nothing else is a date."""

import datetime
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlstm_sentiment.reading.table_model import TableModel, _readings_of
from mlstm_sentiment.reading.table_model import _Dates as Dates

# 5 March 2024 in formats in which nothing is open.
PLAIN = [
    "2024-03-05", "2024-03-05 14:05:22", "2024-03-05T14:05:22Z", "2024-03-05T14:05:22.123+01:00",
    "2024-03-05 14:05:22 UTC", "2024/03/05", "2024/3/5 2:05 PM", "2024.03.05", "20240305T140522",
    "5 March 2024", "5th March 2024", "5. März 2024", "5 mars 2024", "5 de marzo de 2024",
    "March 5, 2024", "March 5th, 2024", "Mar 5, 2024, 2:05 PM", "Mar 5, 2024 at 2:05 PM",
    "Tuesday, March 5, 2024", "Tue, 05 Mar 2024 14:05:22 +0000", "05 Mar 2024 14:05:22 GMT",
    "Tue Mar  5 14:05:22 2024", "Tue Mar 05 14:05:22 +0000 2024", "05/Mar/24 2:05 PM",
    "Tue Mar 05 2024 14:05:22 GMT+0100 (Central European Standard Time)", "05-Mar-2024",
    "05-Mar-24", "05MAR2024", "2024-Mar-05", "03 5, 2024", "2024年3月5日",
    "Reviewed in the United States on March 5, 2024", "Written March 5, 2024",
    "Reviewed in the United Kingdom on 5 March 2024", "Date of experience: March 05, 2024",
    "Rezension aus Deutschland vom 5. März 2024",
]  # fmt: skip


def month_in(dates, cell):
    return dates.settled(dates.months(cell))


@pytest.mark.parametrize("cell", PLAIN)
def test_dates_in_which_nothing_is_open(cell):
    assert set(_readings_of(cell)[:3]) == {datetime.date(2024, 3, 5)}


def test_threads_that_read_dates_lose_no_format():
    uncached, interval = _readings_of.__wrapped__, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(uncached, PLAIN * 50))
    finally:
        sys.setswitchinterval(interval)
    assert all(map(any, map(uncached, PLAIN)))


@pytest.mark.parametrize(
    "cell",
    ["2024-03", "2024/03", "03/2024", "Mar-24", "March 2024", "Mar 2024",
     "Mar '24", "2024-Mar"],
)  # fmt: skip
def test_months_without_a_day(cell):
    dates = Dates("when")
    dates.add(cell)
    assert month_in(dates, cell) == "2024-03"


@pytest.mark.parametrize(
    ("cells", "order", "months"),
    [
        (["3/11/2024 14:05:22", "3/25/2024 9:00:00"], "month first", ["2024-03", "2024-03"]),
        (["3/11/2024 14:05:22", "25/11/2024 9:00:00"], "day first", ["2024-11", "2024-11"]),
        (["3/11/2024", "4/11/2024"], None, ["2024-03", "2024-04"]),
        (["03-11-2024", "04-11-2024"], None, ["2024-11", "2024-11"]),
        (["03.11.24", "04.11.24"], None, ["2024-11", "2024-11"]),
        (["24/03/11", "24/03/31", "24/04/30"], "year first", ["2024-03", "2024-03", "2024-04"]),
        (["13/03/24", "1/4/24"], "day first", ["2024-03", "2024-04"]),
        ([*["1/3/2024"] * 9, "31/3/2024", "soon"], "day first", ["2024-03"] * 10 + [None]),
        (["1710165922", "1710165922000", "1.710165922E12"], "", ["2024-03"] * 3),
        ([1710165922, 1710165922000.0, 45362, "45362.58", 20240311], "", ["2024-03"] * 5),
        ([datetime.date(2024, 3, 5), datetime.datetime(2024, 4, 5)], "", ["2024-03", "2024-04"]),
        (["2024-03-01", "", None, math.nan], "", ["2024-03", None, None, None]),
    ],
)
def test_a_column_of_dates_has_one_order(cells, order, months):
    dates = Dates("Timestamp")
    for cell in cells:
        dates.add(cell)
    assert dates.are_dates
    assert dates.is_order_known == (order is not None)
    assert not order or dates.order == order
    assert [month_in(dates, cell) for cell in cells] == months


@pytest.mark.parametrize(
    "cell",
    ["2024", "1.2.3", "2024-13-01", "2010-02-30", "good", "5", "12:05", "may 2024 good",
     "Octavia 2019", "Marathon 2019", "Marketing 2023", "2023.2 beta", "2024-W12",
     "3/4/2024 it broke", "", "0/0/0"],
)  # fmt: skip
def test_what_is_no_date(cell):
    assert not any(_readings_of(cell)[:3])


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("version", ["2024.3.1", "2024.4.1", "2024.10.2"]),
        ("App build", ["2024.03.01", "2024.04.01"]),
        ("order", ["20240311", "20240312"]),
        ("helpful", ["1710165922", "1710165923"]),
    ],
)
def test_versions_and_numbers_are_no_dates(name, cells):
    model = TableModel(name)
    for cell in cells:
        model.add({name: cell})
    assert model.dates is None
    assert model.group_dates is None
    assert [model.group_name(model.group_key(cell)) for cell in cells] == cells


@pytest.mark.parametrize(
    ("columns", "axis"),
    [
        ({"Date of birth": "1980-03-05", "Created": "2024-03-05"}, "Created"),
        ({"candidate": "2020-01-05", "Created": "2024-03-05"}, "Created"),
        ({"Updated": "2024-05-05", "id": "7", "Created": "2024-03-05"}, "Created"),
        ({"Start Date": "2024-03-05", "End Date": "2024-03-05", "Recorded Date": "2024-03-06"},
         "Recorded Date"),
        ({"Start Date": "2024-03-05", "End Date": "2024-03-05"}, "Start Date"),
        ({"Date of birth": "1980-03-05", "App version": "2024.3.1"}, None),
        ({"Reply date": "2024-03-05", "when": "2024-03-01"}, "when"),
        ({"parent_asin": "B0", "text": "Fine", "rating": "5.0", "timestamp": "1588687728923"},
         "timestamp"),
    ],
)  # fmt: skip
def test_the_time_axis_is_when_texts_were_written(columns, axis):
    model = TableModel()
    for _ in range(70):
        model.add(columns)
    assert (model.dates and model.dates.name) == axis


def test_an_order_that_no_cell_shows_is_that_of_another_column():
    model = TableModel()
    for day in range(13, 20):
        model.add({"Created": "3/4/2024", "Closed": f"{day}/4/2024"})
    assert model.dates.name == "Created"
    assert month_in(model.dates, "3/4/2024") == "2024-04"
    assert model.dates.is_order_known


def test_groups_that_differ_by_a_blank_a_case_or_a_zero_are_one():
    table = TableModel(by="product")
    cells = [
        "Kettle",
        "kettle ",
        " Kettle\xa0",
        "5",
        "5.0",
        5,
        5.0,
        "",
        None,
        math.nan,
        "A  lamp",
        "1,000",
        1000,
        "1.000",
    ]
    assert [table.group_key(cell) for cell in cells] == [
        *["Kettle"] * 3, *["5"] * 4, *["(none)"] * 3, "A lamp", "1,000", "1000", "1.000",
    ]  # fmt: skip
