"""Encodings by evidence: what a table's bytes are in, and how sure that is."""

import logging

import pytest

from mlstm_sentiment.reading.source import Source

ENGLISH = ["The lid doesn\u2019t close: I don\u2019t like it.", "It isn\u2019t \u201cnew\u201d."]
FRENCH = ["Tr\xe8s d\xe9\xe7u: la qualit\xe9 baisse.", "O\xf9 est le c\xe2ble\xa0?"]
RUSSIAN = ["Хороший чайник, кипятит быстро.", "Сломался через неделю, не советую."]
CHINESE = ["水壶很好。烧水很快。", "用了一个星期就坏了。不推荐。"]
JAPANESE = ["とても良いケトルです。", "一週間で壊れました。"]
GREEK = ["Καλός βραστήρας, αλλά χάλασε.", "Δεν τον συνιστώ σε κανέναν."]
ARABIC = ["غلاية جيدة جدا", "تعطلت بعد أسبوع ولا أنصح بها"]
POLISH = ["Czajnik jest dobry, ale zepsuł się.", "Źle działa, żałuję zakupu."]


@pytest.mark.parametrize(
    ("texts", "codec"),
    [
        (ENGLISH, "cp1252"), (ENGLISH, "mac_roman"), (FRENCH, "cp1252"), (FRENCH, "mac_roman"),
        (RUSSIAN, "cp1251"), (RUSSIAN, "koi8_r"), (CHINESE, "gbk"), (JAPANESE, "shift_jis"),
        (GREEK, "cp1253"), (ARABIC, "cp1256"), (POLISH, "cp1250"), (RUSSIAN, "utf-8"),
        (RUSSIAN, "utf-16"), (["so good"] * 40_000 + FRENCH, "cp1252"),
    ],
)  # fmt: skip
def test_tables_are_read_in_their_encoding_and_it_is_said(tmp_path, caplog, texts, codec):
    path = tmp_path / "a.csv"
    path.write_bytes(
        "\n".join(["id;text", *(f"{n};{t}" for n, t in enumerate(texts))]).encode(codec)
    )
    with caplog.at_level(logging.INFO):
        assert list(Source(path).read_texts()) == texts
    assert codec.startswith("utf") or "(guessed, confidence" in caplog.text


def test_lines_of_cp1252_among_lines_of_utf8_are_read_as_such(tmp_path, caplog):
    lines = ["text", *FRENCH, *ENGLISH, "Qualit\u00e9 moyenne."]
    raw = [line.encode("cp1252" if n == 5 else "utf-8") for n, line in enumerate(lines)]
    (tmp_path / "a.csv").write_bytes(b"\n".join(raw))
    with caplog.at_level(logging.INFO):
        assert list(Source(tmp_path / "a.csv").read_texts()) == lines[1:]
    assert "UTF-8 and cp1252" in caplog.text


def test_text_that_was_read_wrongly_before_is_named(tmp_path, caplog):
    wrong = [text.encode().decode("cp1252", errors="replace") for text in ENGLISH[:1] + FRENCH]
    (tmp_path / "a.csv").write_text("\n".join(["text", *wrong]), encoding="utf-8")
    with caplog.at_level(logging.INFO):
        assert list(Source(tmp_path / "a.csv").read_texts()) == wrong
    assert "3 texts with characters such as" in caplog.text
    assert "export it again as UTF-8" in caplog.text
