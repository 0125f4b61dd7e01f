"""The column of the text: right without a question, or a question; never another column."""

import csv

import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.columns import (
    _EXPORTS,
    choose_text,
    export_of,
    extra_header_rows,
    header_is_a_row,
)
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.source import Source

TEXTS = [
    "The kettle boils quickly and it looks lovely.",
    "It stopped working after a week, so I sent it back.",
    "Nobody answered my two mails, which is a shame.",
    "My daughter uses it every morning before school.",
    "Far too loud for a small kitchen like ours.",
    "Exactly what we needed, and cheaper than elsewhere.",
]
REPLY = (
    "Thank you for your feedback! We are sorry to hear this and would love to help. Please contact "
    "our support team, so that we can look into it as soon as possible and make it right for you."
)
REVIEWS = {"text": TEXTS, "label": ["positive", "negative"] * 3, "number": list("135241")}


def rows_of(columns, count=24):
    """Return rows from the cells of columns, each repeated until there are enough."""
    filled = {
        name: [cells] * count if isinstance(cells, str) else (list(cells) * count)[:count]
        for name, cells in columns.items()
    }
    return [dict(zip(filled, row, strict=True)) for row in zip(*filled.values(), strict=True)]


def chosen(columns):
    return choose_text(list(columns), rows_of(columns)).column


IDS = [f"B{number:05}" for number in range(24)]
RIGHT = [
    ("id review comment", {"id": IDS, "review": list("51423"), "comment": TEXTS}, "comment"),
    ("reply to most", {"Review Text": [TEXTS[0], "", "", TEXTS[1]], "Developer Reply Text": REPLY},
     "Review Text"),
    ("scraped", {"reviewId": IDS, "content": TEXTS, "score": list("135"), "replyContent": REPLY},
     "content"),
    ("a response of the owner", {"Review": TEXTS, "Owner's response": REPLY}, "Review"),
    ("tabs of Amazon", {"product_title": "Steel kettle with a lid, 2 l", "review_headline":
     "What a lovely kettle", "review_body": TEXTS, "review_date": "2015-08-31"}, "review_body"),
    ("dotted", {"reviews.text": TEXTS, "reviews.title": "A fine small kettle", "reviews.rating":
     list("135")}, "reviews.text"),
    ("narrative", {"Issue": "Problem with a purchase on your statement", "Consumer complaint "
     "narrative": TEXTS, "Company public response": REPLY}, "Consumer complaint narrative"),
    ("chat", {"AuthorID": IDS, "Author": "anna", "Date": "2024-03-01 10:00", "Content": TEXTS},
     "Content"),
    ("type of feedback", {"Feedback type": "Something about the product", "Feedback": TEXTS},
     "Feedback"),
    ("translated", {"Comment": TEXTS, "Comment (translated)": TEXTS}, "Comment"),
    ("titled", {"Title": "So much better than before", "Comment": TEXTS}, "Comment"),
    ("a manager's", {"Reviewer's comments": TEXTS[::-1], "Manager comments": TEXTS, "Survey answer":
     TEXTS}, "Survey answer"),
    ("numbered question", {"ID": IDS, "Q7. Please tell us why": TEXTS}, "Q7. Please tell us why"),
    ("question and scale", {"How likely is it that you would recommend us?": list("90817"),
     "What is the main reason?": TEXTS}, "What is the main reason?"),
    ("disclaimer", {"Disclaimer": "This answer is published as it is, without any check.",
     "Answer": TEXTS}, "Answer"),
    ("address of a page", {"Review": "https://example.org/r/1", "Body": TEXTS}, "Body"),
    ("address of a shop", {"Shop address": "12 Long Street, Old Town, Springfield",
     "Feedback": ["Great", "Too slow", "never again", "Nice"]}, "Feedback"),
    ("years", {"Store": list("ABC"), "2022": list("123"), "2023": list("321"), "Comment": TEXTS},
     "Comment"),
    ("unknown name", {"nr": IDS, "Gedanken": TEXTS}, "Gedanken"),
    ("unknown name, labels", {"nr": IDS, "Gedanken": TEXTS, "Urteil": ["gut", "schlecht"]},
     "Gedanken"),
    ("one column", {"feedback": ["Great", "OK", "Meh", "Fine"]}, "feedback"),
    ("one word each", {"text": ["good", "bad", "good"], "n": list("123")}, "text"),
    ("one column, nothing in it", {"text": [""]}, "text"),
    ("few with a comment", {"Product description": "Kettle of steel with a removable filter",
     "Customer comment": ["", "", "", "", *TEXTS[:3]]}, "Customer comment"),
    ("German", {"Datum": "01.03.2024", "Note": list("123"), "Kommentar": TEXTS}, "Kommentar"),
    ("a German message", {"Nachricht": TEXTS, "Antwort": TEXTS[::-1]}, "Nachricht"),
    ("a German survey", {"Nr": IDS, "Frage": "Was war gut am Zimmer?", "Antwort": TEXTS},
     "Antwort"),
    ("a German survey of several questions", {"Frage": TEXTS[::-1], "Antwort": TEXTS}, "Antwort"),
    ("a shop's answer", {"Comment": TEXTS, "Answer": TEXTS[::-1]}, "Comment"),
    ("a shop's response", {"Feedback": TEXTS, "Response text": TEXTS[::-1]}, "Feedback"),
    ("an owner's, in German", {"Kommentar": TEXTS, "Antwort des Inhabers": TEXTS[::-1]},
     "Kommentar"),
    ("answers of customers, in German", {"Frage": "Was war gut am Zimmer?",
     "Antwort der Befragten": TEXTS}, "Antwort der Befragten"),
    ("a Spanish message", {"Mensaje": TEXTS, "Respuesta": TEXTS[::-1]}, "Mensaje"),
    ("French", {"Date": "01/03/2024", "Avis": TEXTS, "Réponse": REPLY}, "Avis"),
    ("one long header", {"Please share any other thoughts you have about working with us": TEXTS},
     "Please share any other thoughts you have about working with us"),
]  # fmt: skip
ASKED = [
    ("two reviews", {"Service Review": TEXTS, "Product Review": TEXTS[::-1]}),
    ("two sides", {"Positive_Review": TEXTS, "Negative_Review": TEXTS[::-1]}),
    ("pros and cons", {"Job title": "Senior clerk in a shop", "Pros": TEXTS, "Cons": TEXTS[::-1]}),
    ("two questions", {"What did you like most?": TEXTS, "What could be better?": TEXTS[::-1]}),
    ("two unknown", {"Reason": TEXTS, "Details": TEXTS[::-1]}),
    *((f"{text} and {answer}", {"Date": "2026-03-01", text: TEXTS, "Stars": list("135"),
       answer: TEXTS[::-1]})
      for text, answer in [("Bewertung", "Antwort"), ("Kundenmeinung", "Antwort"),
                           ("Customer says", "Answer"), ("Experience", "Message"),
                           ("Impression", "Response text"), ("Comment", "Message")]),
    ("tickets", {"Issue key": IDS, "Summary": "App crashes on start", "Description": TEXTS,
     "Comment": TEXTS[::-1]}),
    ("only titles", {"Title": TEXTS, "Rating": list("135")}),
    ("only replies", {"ID": IDS, "Reply": REPLY}),
    ("only replies under another name", {"ID": IDS, "Comment": [REPLY, REPLY + " A."]}),
    ("only numbers", {"review": list("12345"), "comment": list("54321")}),
    ("nothing in it", {"review": ["", "", ""], "id": IDS}),
    ("only labels", {"mood": ["good", "bad", "good"], "n": list("123")}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "name"), [case[1:] for case in RIGHT], ids=[c[0] for c in RIGHT]
)
def test_the_text_is_found(columns, name):
    assert chosen(columns) == name


@pytest.mark.parametrize("columns", [case[1] for case in ASKED], ids=[case[0] for case in ASKED])
def test_in_doubt_a_person_is_asked(columns):
    choice = choose_text(list(columns), rows_of(columns))
    assert choice.column is None
    question = choice.question("--text-key")
    assert "--text-key" in question
    assert any(repr(name) in question for name in columns)
    assert "\n" not in question


@pytest.mark.parametrize("export", _EXPORTS, ids=[export["name"] for export in _EXPORTS])
def test_common_exports_are_known_by_their_columns(export):
    columns = dict.fromkeys(export["has"], IDS)
    if text := export.get("text"):
        columns[text] = TEXTS
    else:
        columns |= {"Description": TEXTS, "Comment": TEXTS[::-1]}
    assert export_of(columns) == export
    assert chosen(columns) == text


def test_a_known_name_in_an_export_is_not_the_text_if_it_holds_none():
    columns = {"app_id": list("12"), "review_text": list("12"), "review_score": ["1", "0"]}
    assert chosen(columns | {"notes": TEXTS}) == "notes"


def test_without_a_header_the_first_line_is_a_row():
    header = "positive", "I really like this phone"
    cells = [("negative", "It broke at once after a day"), ("positive", "nice and fast phone here")]
    rows = [dict(zip(header, row, strict=True)) for row in cells]
    assert header_is_a_row(list(rows[0]), rows)
    labelled = rows_of({TEXTS[0]: TEXTS[1:], "joy": "joy"})
    assert header_is_a_row(list(labelled[0]), labelled)
    rated = rows_of({TEXTS[0]: TEXTS[1:], "5": list("12345")})
    assert header_is_a_row(list(rated[0]), rated)
    dated = rows_of(
        {"2024-03-01": [f"2024-03-{day:02}" for day in range(2, 26)], TEXTS[0]: TEXTS[1:]}
    )
    assert header_is_a_row(list(dated[0]), dated)


@pytest.mark.parametrize(
    "columns",
    [
        *({first: TEXTS} for first in TEXTS),
        {"Das Zimmer war sauber und sehr hell.": TEXTS},
        {"u1": [f"u{number}" for number in range(2, 26)], TEXTS[0]: TEXTS},
        {"3f2a-9c1e": [f"{number:04x}-77ab" for number in range(24)], TEXTS[0]: TEXTS},
        {TEXTS[0]: TEXTS, "Unnamed: 1": ""},
        {TEXTS[0]: TEXTS, TEXTS[1]: TEXTS[::-1]},
    ],
)
def test_a_first_line_of_sentences_and_values_is_a_row(columns):
    for count in (1, 24):
        rows = rows_of(columns, count)
        assert header_is_a_row(list(rows[0]), rows)


@pytest.mark.parametrize(
    "columns",
    [
        {"What did you like about the hotel?": TEXTS, "It was noisy, and why": TEXTS},
        {"In a few words, tell us what is best about your stay.": TEXTS},
        {"If it was not good, tell us more": TEXTS},
        {"Additional remarks about the stay": TEXTS},
        {"Das hat mir sehr gut gefallen": TEXTS, "Das hat mir nicht gefallen": TEXTS[::-1]},
        {"Ce qui ne m'a pas plu": TEXTS},
        {"Lo que no me gustó es": TEXTS},
        {"Additional information (optional, max. 500 chars)": TEXTS},
        {"The reasons why it is still not resolved": TEXTS},
        {"Q7. Anything else to add": TEXTS},
        {"user": IDS, TEXTS[0]: TEXTS},
        {"The room was clean and quiet": ["agree", "disagree", "neither of the two"]},
        {"Nice lamp": ["I love it", "It broke", "Bad"]},  # a short text looks like a name
    ],
)
def test_a_first_line_that_names_a_column_or_asks_is_a_header(columns):
    rows = rows_of(columns)
    assert not header_is_a_row(list(rows[0]), rows)


@pytest.mark.parametrize(
    "columns",
    [
        {"number": list("13524"), "kind": ["a", "kind"]},
        {"Email": ["Email", "Email", "", ""], "Phone": ["", "", "Phone", ""]},  # options
    ],
)
def test_a_header_with_a_sentence_for_a_name_is_no_row(columns):
    rows = rows_of({"The thing I liked most": TEXTS} | columns)
    rows.insert(7, {name: name for name in rows[0]})  # the header is repeated
    assert not header_is_a_row(list(rows[0]), rows)


@pytest.mark.parametrize("columns", [case[1] for case in RIGHT + ASKED])
def test_a_header_is_no_row(columns):
    assert not header_is_a_row(list(columns), rows_of(columns))


def test_rows_of_surveys_that_belong_to_the_header_are_counted():
    names = ["StartDate", "ResponseId", "Q1"]
    rows = [
        dict(zip(names, cells, strict=True))
        for cells in (
            ["Start Date", "Response ID", "Please tell us why."],
            ['{"ImportId":"startDate"}', '{"ImportId":"_recordId"}', '{"ImportId":"QID1_TEXT"}'],
            ["2024-03-02 10:00:00", "R_1", TEXTS[0]],
        )
    ]
    assert extra_header_rows(names, rows) == 2
    survey = {"Respondent ID": "", "Collector ID": "", "Why?": "Open-Ended Response"}
    assert extra_header_rows(list(survey), [survey, dict.fromkeys(survey, "1")]) == 1
    assert extra_header_rows(list(survey), [dict.fromkeys(survey, "1")] * 2) == 0
    options = survey | {"How?": "Very", "Unnamed: 4": "Quite", "Unnamed: 5": "Not at all"}
    assert extra_header_rows(list(options), [options, dict.fromkeys(options, "1")]) == 1
    assert extra_header_rows(["Response"], [{"Response": "Response"}]) == 1
    assert extra_header_rows(["a"], []) == 0


def test_answers_to_choose_from_are_no_texts():
    chosen_from = ["Very satisfied with it", "Neither satisfied nor dissatisfied", "Not at all"]
    columns = {"How satisfied are you?": chosen_from, "What else?": TEXTS}
    assert chosen(columns) == "What else?"


def read(path):
    """Return the texts of a table, and the lines that say how it was read."""
    return list(Source(path).read_texts())


def test_a_table_without_a_header_keeps_its_first_row(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "none.csv"
    path.write_text("positive,I really like this phone\nnegative,It broke at once after a day\n"
                    "positive,nice and fast phone here\n")  # fmt: skip
    assert read(path)[0] == "I really like this phone"
    assert len(read(path)) == 3
    assert "no header: the first line is a row, text column 'column 2'" in caplog.text
    assert [record.place[-6:] for record in read_records(path, strict=True)] == [
        "line 1", "line 2", "line 3"
    ]  # fmt: skip


def test_a_table_of_comments_alone_keeps_all_of_them(tmp_path):
    path = tmp_path / "none.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([text] for text in TEXTS)
    assert read(path) == TEXTS


def test_an_empty_cell_in_the_first_row_of_a_table_without_a_header_stays_empty(tmp_path):
    path = tmp_path / "none.csv"
    path.write_text("5,,I really like this phone\n1,x,It broke at once after a day\n")
    (first, second) = read_records(path, strict=True)
    assert list(first.values()) == ["5", "", "I really like this phone"]
    assert list(second.values()) == ["1", "x", "It broke at once after a day"]


def test_rows_of_a_survey_that_belong_to_the_header_are_left_out(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "survey.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([
            ["StartDate", "Q1", "Q2"],
            ["Start Date", "How was it?", "Please tell us why."],
            ['{"ImportId":"startDate"}', '{"ImportId":"QID1"}', '{"ImportId":"QID2_TEXT"}'],
            *([f"2024-03-0{n + 1} 10:00:00", n, text] for n, text in enumerate(TEXTS)),
        ])  # fmt: skip
    assert read(path) == TEXTS
    assert "2 rows below the header left out, which belong to it" in caplog.text
    assert next(read_records(path, strict=True)).place.endswith("line 4")


def test_in_doubt_the_file_is_refused_with_the_question(tmp_path):
    path = tmp_path / "hotel.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([
            ["Positive_Review", "Negative_Review"], *zip(TEXTS, TEXTS[::-1], strict=True)
        ])  # fmt: skip
    with pytest.raises(
        InputError, match=r"both hold texts .*; name it with --text-key: 'Pos.*'Neg"
    ):
        read(path)
    assert list(Source(path, "Negative_Review").read_texts()) == TEXTS[::-1]
