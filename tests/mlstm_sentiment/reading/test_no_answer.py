"""Placeholders, errors, totals and headers are no opinion; words that are one stay."""

import pytest

from mlstm_sentiment.reading.no_answer import _HEADER, NO_TEXT, _reasons, reason_of_no_answer

QUESTION = "What could we improve?"
NONE = ["N/A", "n/a.", " None ", "NaN", "-", "...", "[deleted]", "#REF!", "Total", "No answer",
        "Not applicable", "null", '"N/A"', "NONE!"]  # fmt: skip
OPINIONS = ["The lid broke after a week.", "Nothing works.", "No good", "total waste of money",
            "ok", "5/5", "meh", "None of my guests liked it", "good", "average", "!"]  # fmt: skip


EMPTY = [None, "", " \n\u3000" * 50, "<br />", "<p> </p>", "&nbsp;", "<p>&nbsp;&#160;</p>"]
NOTHING = ["nothing", "Nothing really", "Don\u2019t know"]
NO = ["No.", "not really", "Yes"]
ALL = (None, "", "Review", QUESTION)


@pytest.mark.parametrize(
    ("cells", "columns", "reason"),
    [
        ([*NONE, "<p>N/A</p>"], ALL, "any"),
        (EMPTY, ALL, NO_TEXT),
        (NOTHING, (QUESTION,), "it answers a question with nothing"),
        (NOTHING, ("Review", None), None),
        (NO, ("Any other comments?",), "any"),
        (NO, ("Would you recommend us?",), None),
        (OPINIONS, (QUESTION, None), None),
    ],
)
def test_a_cell_is_no_answer_for_a_reason_that_may_depend_on_its_header(cells, columns, reason):
    for cell in cells:
        for column in columns:
            found = reason_of_no_answer(cell, column)
            assert found == (found if reason == "any" and found else reason), (cell, column)


def test_a_row_that_repeats_the_header_is_no_answer():
    assert reason_of_no_answer(QUESTION, QUESTION) == _HEADER
    assert reason_of_no_answer(" review  text", "Review Text") == _HEADER
    long = "Please share any other thoughts you have about working with us and with our partners"
    assert reason_of_no_answer(long, long) == _HEADER


def test_every_entry_of_the_list_is_found_as_it_is_written():
    for cell in _reasons():
        assert cell == cell.casefold().strip()
        assert reason_of_no_answer(cell.upper(), QUESTION) is not None
