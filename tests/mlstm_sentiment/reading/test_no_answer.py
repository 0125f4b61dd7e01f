"""Placeholders, errors, totals and headers are no opinion; words that are one stay."""

import pytest

from mlstm_sentiment.reading.no_answer import _HEADER, NO_TEXT, _reasons, reason_of_no_answer

QUESTION = "What could we improve?"
NONE = ["N/A", "n/a.", " None ", "NaN", "-", "...", "[deleted]", "#REF!", "Total", "No answer",
        "Not applicable", "null", '"N/A"', "NONE!"]  # fmt: skip
OPINIONS = ["The lid broke after a week.", "Nothing works.", "No good", "total waste of money",
            "ok", "5/5", "meh", "None of my guests liked it", "good", "average", "!"]  # fmt: skip


@pytest.mark.parametrize("cell", NONE)
def test_placeholders_are_no_answer_under_any_header(cell):
    for column in (None, "Review", QUESTION):
        assert reason_of_no_answer(cell, column) is not None


@pytest.mark.parametrize("cell", [None, "", " \n\u3000" * 50, "<br />", "<p> </p>"])
def test_cells_without_text_are_no_answer(cell):
    for column in (None, "", "Review", QUESTION):
        assert reason_of_no_answer(cell, column) == NO_TEXT


def test_html_tags_are_left_out():
    assert reason_of_no_answer("<p>N/A</p>") == reason_of_no_answer("N/A")


@pytest.mark.parametrize("cell", ["nothing", "Nothing really", "Don\u2019t know"])
def test_a_question_decides_what_nothing_means(cell):
    assert reason_of_no_answer(cell, QUESTION) == "it answers a question with nothing"
    assert reason_of_no_answer(cell, "Review") is None
    assert reason_of_no_answer(cell) is None


@pytest.mark.parametrize("cell", ["No.", "not really", "Yes"])
def test_yes_and_no_answer_some_questions(cell):
    assert reason_of_no_answer(cell, "Any other comments?") is not None
    assert reason_of_no_answer(cell, "Would you recommend us?") is None


@pytest.mark.parametrize("cell", OPINIONS)
def test_opinions_are_answers(cell):
    assert reason_of_no_answer(cell, QUESTION) is None
    assert reason_of_no_answer(cell) is None


def test_a_row_that_repeats_the_header_is_no_answer():
    assert reason_of_no_answer(QUESTION, QUESTION) == _HEADER
    assert reason_of_no_answer(" review  text", "Review Text") == _HEADER
    long = "Please share any other thoughts you have about working with us and with our partners"
    assert reason_of_no_answer(long, long) == _HEADER


def test_every_entry_of_the_list_is_found_as_it_is_written():
    for cell in _reasons():
        assert cell == cell.casefold().strip()
        assert reason_of_no_answer(cell.upper(), QUESTION) is not None
