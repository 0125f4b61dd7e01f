"""Text profiles, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.text import text_profile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fine", b"\n fine "),
        ("  two\nlines\n", b"\n two lines "),
        ("Tom &amp; Jerry &lt;3 &#39;", b"\n Tom & Jerry <3 ' "),
        ("na\u00efve \u2014 \U0001f600", "\n na\u00efve \u2014 \U0001f600 ".encode()),
        ("", b"\n  "),
        ("half a pair \ud800!", b"\n half a pair ?! "),
    ],
)
def test_openai_profile(text, expected):
    assert text_profile("openai").encode(text) == expected


@given(st.text())
def test_openai_profile_frames_one_line(text):
    encoded = text_profile("openai").encode(text)
    assert encoded.startswith(b"\n ")
    assert encoded.endswith(b" ")
    assert encoded.count(b"\n") == 1
    encoded.decode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_raw_profile_changes_nothing(text):
    assert text_profile("raw").tokens(text).tobytes() == text.encode()


def test_unknown_profiles_are_named():
    with pytest.raises(InputError, match="known: openai, raw"):
        text_profile("latin")
