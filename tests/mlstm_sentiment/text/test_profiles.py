"""Text profiles, byte for byte."""

import re
import sys
import time
import unicodedata
from itertools import filterfalse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import (
    _TEXT_PROFILES,
    _transliteration,
    _without_accents,
    checked_texts,
    normalized,
    text_profile,
)

UNREADABLE = f"&#{'1' * 4301};"  # Python makes a number of 4,300 digits at most


@pytest.mark.parametrize(
    ("profile", "text", "expected"),
    [
        ("openai", "fine", b"\n fine "),
        ("openai", "  two\nlines\n", b"\n two lines "),
        ("openai", "Tom &amp; Jerry &lt;3 &#39;", b"\n Tom & Jerry <3 ' "),
        ("openai", "na\u00efve \u2014 \U0001f600", "\n na\u00efve \u2014 \U0001f600 ".encode()),
        ("openai", "", b"\n  "),
        ("openai", "half a pair \ud800!", b"\n half a pair ?! "),
        ("nvidia", "fine", b"\n fine "),
        ("nvidia", "<br />Two<p>\n\tlines</p>", b"\n Two lines "),
        ("nvidia", "caf\u00e9 \u2014 \u201cq\u201d", b'\n cafe - "q" '),
        ("nvidia", "Tom &amp; &eacute;", "\n Tom & \u00e9 ".encode()),  # unescaped last
        ("nvidia", "1 < 2 and 3 > 2", b"\n 1 2 "),  # their pattern takes it for a tag
        ("nvidia", "", b"\n  "),
        ("tweet", "see https://t.co/x1 or www.a.org now", b"see xxxx or xxxx now"),
        ("tweet", "so #happy!  caf\u00e9\n", b"so happy!!! cafe"),
        ("tweet", "fun\U0001f600\u5317 &lt;3", b"fun :grinning: <3"),
        ("tweet", "a\x07b\u200bc", b"abc"),
    ],
)
def test_profiles(profile, text, expected):
    assert text_profile(profile).encode(text) == expected


@given(st.text())
def test_openai_profile_frames_one_line(text):
    encoded = text_profile("openai").encode(text)
    assert encoded.startswith(b"\n ")
    assert encoded.endswith(b" ")
    assert encoded.count(b"\n") == 1
    encoded.decode("utf-8")


@given(st.text())
def test_what_tweets_become_is_printable_ascii_on_one_line(text):
    cleaned = text_profile("tweet").encode(text).decode("ascii")
    assert cleaned.isprintable()
    assert cleaned == cleaned.strip()
    assert "  " not in cleaned


def test_profiles_without_their_library_say_what_to_install(monkeypatch):
    _transliteration.cache_clear()
    monkeypatch.setitem(sys.modules, "anyascii", None)
    assert text_profile("nvidia").encode("plain") == b"\n plain "
    with pytest.raises(InputError, match="pip install anyascii"):
        text_profile("nvidia").encode("caf\u00e9")
    _transliteration.cache_clear()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_raw_profile_changes_nothing(text):
    assert text_profile("raw").encode(text) == text.encode()


def test_unknown_profiles_are_named():
    with pytest.raises(InputError, match="known: openai, nvidia, tweet, raw"):
        text_profile("latin")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai", f"\n a &amp; {UNREADABLE} "),
        ("nvidia", f"\n a &amp; {UNREADABLE} "),
        ("tweet", f"a &amp; {UNREADABLE.replace('#', '')}!!"),  # a hashtag
        ("raw", f"a &amp; {UNREADABLE}"),
    ],
)
def test_no_reference_is_resolved_if_one_is_unreadable(name, expected):
    text = f"a &amp; {UNREADABLE}"
    assert text_profile(name).encode(text) == expected.encode()


def test_a_reference_of_4300_digits_is_read():
    text = f"&#{'0' * 4298}65;"
    assert text_profile("openai").encode(text) == b"\n A "


@given(st.text("<>a\n"))
def test_tags_are_found_as_by_the_pattern_of_the_paper(text):
    expected = " ".join(re.sub(r"<.*?>", " ", text).split())
    assert text_profile("nvidia").encode(text) == f"\n {expected} ".encode()


@given(st.text())
def test_accents_go_as_from_a_text_decomposed_whole(text):
    decomposed = unicodedata.normalize("NFKD", text)
    assert _without_accents(text) == "".join(filterfalse(unicodedata.combining, decomposed))


@given(st.text(max_size=99))
@example("a" * 99 + "e\u0301\u0316 z")
@example("a" * 99 + unicodedata.normalize("NFD", "각"))
@example("a" * 99 + unicodedata.normalize("NFD", "が"))
def test_a_text_is_composed_in_parts_as_at_once(text):
    text = f"{text} {text}\n{text}"
    for form in ("NFC", "NFKC"):
        assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("name", _TEXT_PROFILES)
@pytest.mark.parametrize("piece", ["<", "<a ", "&", "&#", "#", "http://", "\u0301\u0316"])
def test_the_time_for_a_text_grows_with_its_length(name, piece):
    """Milliseconds; where each character looks through the rest of the text, up to 14 s."""
    text = (piece * 60_000)[:60_000]
    began = time.process_time()
    text_profile(name).encode(text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("texts", "named"),
    [("I love it", "string"), (b"I love it", "bytes"), ({"a": "b"}, "dict"), ({"a"}, "set")],
)
def test_what_has_no_texts_in_order_is_no_list_of_texts(texts, named):
    with pytest.raises(InputError, match=f"a list of texts is needed; got a.* {named}"):
        checked_texts(texts)


@pytest.mark.parametrize("missing", [None, float("nan"), 3, b"bytes"])
def test_of_a_missing_text_the_place_is_named(missing):
    message = f"item 2, counted from 0, is of type {type(missing).__name__}; leave out or fill"
    with pytest.raises(InputError, match=message):
        checked_texts(["a", "", missing, None])
