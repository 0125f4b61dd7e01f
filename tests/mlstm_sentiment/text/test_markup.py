"""HTML tags are left out where a text is clearly marked up, and nothing else is."""

import time

import pytest

from mlstm_sentiment.text.markup import without_tags


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("I loved it.<br /><br />It broke.", "I loved it. It broke."),
        ("I loved it.<BR>\nIt broke.", "I loved it. It broke."),
        ("<p>Good.</p><p>Bad.</p>", "Good. Bad."),
        ('<div class="a b" data-n=3>So <b>very</b> good</div>', "So very good"),
        ("Good.&lt;br /&gt;Bad.", "Good. Bad."),
        ('see <a href="http://a.b/?c=d&e">this</a>', "see this"),
        ("<br />", ""),
    ],
)
def test_tags_of_a_marked_up_text_are_left_out(marked, plain):
    assert without_tags(marked) == plain


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d", "if a <b and b> c", "<3 this", "I <i> it", "<unknown>x</unknown>",
        "x <y@z.com> wrote", "1 <p 2", "&lt;", "<", "", "two  blanks\n\nand lines", "<br", "a<ba>",
    ],
)  # fmt: skip
def test_other_texts_stay(text):
    assert without_tags(text) == text


def test_what_is_no_tag_stays_next_to_tags():
    assert without_tags("a < b<br>and <unknown> c > d") == "a < b and <unknown> c > d"


@pytest.mark.parametrize(
    "text",
    ["<a b=" + "x" * 200_000, "<br>" + "<a " * 60_000, "<p>" + " " * 200_000 + "<",
     "</p>" + "<a" + " b=c" * 60_000, '<br><a b="' * 30_000],
)  # fmt: skip
def test_hostile_texts_take_linear_time(text):
    started = time.process_time()
    without_tags(text)
    assert time.process_time() - started < 2
