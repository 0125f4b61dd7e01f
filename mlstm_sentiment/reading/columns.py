"""Which column of a table holds the text: by its name, its content and its role.

A column is the text if its name says so and its cells are texts, or if it is the only one whose
cells are texts. Replies, descriptions, titles, addresses and people are never the text, and a known
name that holds numbers, labels, addresses or nothing is not either. In doubt nobody is chosen, so
that the caller can ask.
"""

import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

Row = Mapping[str, Any]
_Role = Literal["text", "question", "reply", "other", "unknown"]

_NAMES = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))
_SURE_NAMES: Sequence[str] = _NAMES["sure"]
_TEXT_NAMES, _REPLIES_TO_TEXT, _PERHAPS_REPLIES, _REPLY_WORDS, _OTHER_WORDS, _ABOUT_WORDS = (
    frozenset(_NAMES[kind])
    for kind in ("text", "reply_to_text", "perhaps_reply", "reply", "other", "about")
)
_EXPORTS: Sequence[dict[str, Any]] = _NAMES["exports"]
_RESPONSE_OF = re.compile(r"\b(response|reply|answer|antwort)\b.*\b(from|by|of|to)\b|\bre:", re.I)
ASKS = re.compile(
    r"""\?\s*$|^(?:q?\d+[a-z]?\s*[.:)-]\s*)?(what|why|how|which|where|when|who|is|are|do|does|did|
    would|could|can|please|tell|share|describe|explain|list|any|in\ your|if\ you|was|were|warum|wie|
    pourquoi|comment)\b(?=.*\s.*\s)""",
    re.IGNORECASE | re.VERBOSE,
)
NUMBER = re.compile(r"[+-]?[\d.,\s]*\d(e[+-]?\d+)?\s*[%€$£]?|[€$£]\s*[\d.,]+", re.IGNORECASE)
_URL = re.compile(r"(https?://|www\.)\S+", re.IGNORECASE)
_EMAIL = re.compile(r"\S+@\S+\.\w+")
_DATE = re.compile(
    r"""\d{1,4}[-/.](\d{1,2}|[a-z]{3})[-/.]\d{1,4}\b.*|\d{1,2}\.?\ [a-z]{3,9}\.?,?\ \d{2,4}.*|
    [a-z]{3,9}\.?\ \d{1,2},?\ \d{4}.*|\d{1,2}:\d{2}(:\d{2})?""",
    re.IGNORECASE | re.VERBOSE,
)
_CODE = re.compile(r"\S*\d\S*")
_ASKED = frozenset({"you", "your", "us", "if", "please"})  # in headers that ask for a text
_SENTENCE_WORDS, _ENDS = 6, (".", "!", "…")  # of a sentence: the fewest words, and how it ends
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
# How a shop answers a customer.
_REPLY = re.compile(
    r"""\b(thank\ you\ for\ (your|taking|sharing|the|reaching|contacting|choosing|being)|
    thanks\ for\ (your|the|sharing|reaching|letting)|we(\ are|'re)\ (very\ |so\ |really\ )?
    (sorry|glad|happy|delighted|pleased)\ (to|that|you|for)|we\ apologi[sz]e|our\ apologies|
    (please|kindly)\ (contact|reach\ out|email|write\ to|get\ in\ touch)|dear\ (customer|guest|user|
    valued)|our\ (support\ )?team|look\ into\ (this|it)|hope\ to\ (see|welcome)\ you)""",
    re.IGNORECASE | re.VERBOSE,
)
_JSON_LIKE = re.compile(r"\s*[\[{].*[\]}]\s*", re.DOTALL)
_IMPORT_ID = re.compile(r"\{\s*\"+ImportId\"+")  # the third row of a Qualtrics export
UNNAMED = "Unnamed: "  # and the place of a column without a name
_SUB_HEADERS = frozenset({"response", "open-ended response", "other (please specify)"})
_LABEL_WORDS = 6  # at most: "Neither satisfied nor dissatisfied" is an answer to choose
_SEVERAL = 3  # cells that show what a column holds; with fewer, its name counts more
_MOST_LINES_ABOVE = 10
_MOSTLY = 0.6  # of the cells that decide what a column holds


@dataclass(frozen=True)
class _Column:
    """A column as the chooser sees it."""

    name: str
    cells: Sequence[str]  # those that are not empty
    role: _Role = "unknown"  # by its name

    def share(self, pattern: re.Pattern[str]) -> float:
        return sum(pattern.fullmatch(cell) is not None for cell in self.cells) / len(self.cells)

    @cached_property
    def words(self) -> float:
        """The mean of a cell."""
        return sum(len(_WORD.findall(c)) for c in self.cells) / max(len(self.cells), 1)

    @cached_property
    def holds(self) -> str:
        """What the cells are, in a word or two: "texts", "numbers", "labels", ..."""
        if not self.cells:
            return "nothing"
        for kind, pattern in (
            ("dates", _DATE), ("numbers", NUMBER), ("addresses of pages", _URL),
            ("addresses of mail", _EMAIL), ("data", _JSON_LIKE),
        ):  # fmt: skip
            if self.share(pattern) >= _MOSTLY:
                return kind
        letters = sum(sum(map(str.isalpha, cell)) for cell in self.cells)
        if letters < 0.5 * sum(len(cell) for cell in self.cells):
            return "codes"
        counts = Counter(self.cells)
        if len(self.cells) > _SEVERAL and len(counts) == 1:
            return "one value"
        replies = sum(_REPLY.search(cell) is not None for cell in self.cells) / len(self.cells)
        if replies >= _MOSTLY and self.words > 5:
            return "replies"
        is_short = all(len(cell.split()) <= _LABEL_WORDS for cell in counts)
        if is_short and len(counts) <= 12 and 3 * len(counts) <= len(self.cells):
            return "labels"
        return "texts" if self.words >= 3 else "short texts"

    @property
    def is_candidate(self) -> bool:
        return self.holds in ("texts", "short texts") and self.role not in ("reply", "other")


@dataclass(frozen=True)
class _Choice:
    """Which column holds the text, or why the user must name it."""

    columns: tuple[_Column, ...]  # likeliest first
    column: str | None = None
    doubt: str = "no column is clearly the text"

    def question(self, option: str) -> str:
        """Return the question to the user: the likeliest columns, a cell of each, the option."""
        examples = [
            f"{column.name!r} ({column.holds}: {_short(max(column.cells[:20], key=len))!r})"
            for column in self.columns[:4]
            if column.cells
        ]
        return (
            f"{self.doubt}; name it with {option}: {'; '.join(examples) or 'no column has cells'}"
        )


def choose_text(names: Sequence[str], rows: Sequence[Row]) -> _Choice:
    """Return the column of the text, from the names of a table and its first rows.

    choice = choose_text(["id", "review", "comment"], rows)
    choice.column  # 'comment', or None: ask choice.question("--text-key")
    """
    columns = _without_replies([_column(name, [row.get(name) for row in rows]) for name in names])
    ranked = tuple(sorted(columns, key=_rank))
    likely = [column for column in ranked if column.is_candidate]
    if (export := export_of(names)) is not None:
        matches = [c for c in likely if words_of(c.name) == export.get("text")]
        if len(matches) == 1:
            return _Choice(ranked, matches[0].name)
        if "text" not in export:
            return _Choice(ranked, None, f"{export['name']}: a row has several texts")
    if pair := _praise_and_complaint(likely):
        both = " ".join(f"--text-key {shlex.quote(name)}" for name in pair)
        doubt = f"{pair[0]!r} and {pair[1]!r} both hold texts ({both} joins them)"
        return _Choice(ranked, None, doubt)
    candidates = [column for column in likely if column.role in ("text", "question")]
    for sure in _SURE_NAMES:
        matches = [column for column in candidates if words_of(column.name) == sure]
        if len(matches) == 1:
            return _Choice(ranked, matches[0].name)
    candidates = candidates or [column for column in likely if column.holds == "texts"]
    if len(candidates) == 1:
        return _Choice(ranked, candidates[0].name)
    if candidates:
        prose = [column for column in candidates if column.role == "text"]
        if len(prose) == 1 and all(prose[0].words >= other.words for other in candidates):
            return _Choice(ranked, prose[0].name)
        first = " and ".join(repr(column.name) for column in candidates[:2])
        both = "both " if len(candidates) == 2 else ""
        return _Choice(ranked, None, f"{first} {both}may be the text")
    short = [c for c in columns if c.role == "text" and c.holds in ("labels", "one value")]
    if len(short) == 1 and not likely:
        return _Choice(ranked, short[0].name)
    named = [c for c in columns if words_of(c.name) in _TEXT_NAMES]
    is_alone = not any(c.holds in ("texts", "short texts") for c in columns)
    is_enough = len(rows) < _SEVERAL or (named and named[0].holds == "codes")
    if len(named) == 1 and is_alone and is_enough:
        return _Choice(ranked, named[0].name)
    if len(columns) == 1 and (likely or columns[0].role == "text"):
        return _Choice(ranked, names[0])
    return _Choice(ranked)


def _without_replies(columns: Sequence[_Column]) -> list[_Column]:
    """Return the columns; next to other texts, one that may hold replies is not surely the text.

    A name such as "answer" is a reply's if another column of texts has a name of text. If its name
    says nothing, neither of the two is known.
    """
    doubtful = _REPLIES_TO_TEXT | _PERHAPS_REPLIES
    role: _Role = "unknown"
    others = [c for c in columns if c.is_candidate and words_of(c.name) not in doubtful]
    if any(column.role == "text" for column in others):
        doubtful, role = _REPLIES_TO_TEXT, "reply"
    elif not any(column.holds == "texts" for column in others):
        return [*columns]
    return [replace(c, role=role) if words_of(c.name) in doubtful else c for c in columns]


def export_of(names: Iterable[str]) -> dict[str, Any] | None:
    """Return the common export that has columns of these names, as columns.toml describes it."""
    words = set(map(words_of, names))
    return next((one for one in _EXPORTS if words.issuperset(one["has"])), None)


def lines_above_header(records: Sequence[Sequence[str]]) -> int:
    """Return how many first lines are titles or notes above the header of a table.

    They fill fewer cells than the header, whose cells are names, and whose width most rows have.
    """
    # Cells up to the last one that is not blank.
    widths = [
        max((number for number, cell in enumerate(record, 1) if cell.strip()), default=0)
        for record in records
    ]
    for above in range(1, min(_MOST_LINES_ABOVE, len(records) - 2) + 1):
        titles, header, rows = records[:above], records[above], widths[above + 1 :]
        if (
            all(map(partial(_is_title, header=header), titles))
            and len(_filled(header)) > 1
            and all(map(_may_be_name, _filled(header)))
            and 5 * sum(width <= len(header) for width in rows) >= 4 * len(rows)
            and 2 * sum(width >= max(widths[above] - 1, 2) for width in rows) >= len(rows)
        ):
            return above
    return 0


def _is_title(record: Sequence[str], header: Sequence[str]) -> bool:
    cells = _filled(record)
    if not cells or cells[0].lstrip().startswith("#") or cells[0].rstrip().endswith(":"):
        return True
    # "Feedback of May" may be the name of a column, but not above another name of a text.
    may_be_name = _names_text(cells) and not _names_text(header)
    return 2 * len(cells) <= len(_filled(header)) and not may_be_name


def _names_text(cells: Sequence[str]) -> bool:
    return any(_role_of(cell) == "text" for cell in cells)


def _filled(record: Sequence[str]) -> list[str]:
    return [cell for cell in record if cell.strip()]


def _may_be_name(cell: str) -> bool:
    is_value = any(pattern.fullmatch(cell) for pattern in (NUMBER, _DATE, _URL, _EMAIL))
    is_short = len(cell.split()) <= 5 or ASKS.search(cell) is not None
    return cell == cell.strip(" :") and not is_value and is_short


def header_is_a_row(
    names: Sequence[str], rows: Sequence[Row], cells_of_header: Sequence[str] | None = None
) -> bool:
    """Whether the first line of a table is a row, too: its cells are values like those below.

    A table without a header has, in its first line, a text where a column has texts, and, where
    another column has numbers, dates or a few values, one of them. A sentence is enough, if all
    other cells of the line are sentences or values, too. A number or a date in every row but the
    first line makes it a header. cells_of_header: as they are written, if the names differ.
    """
    written = dict(zip(names, cells_of_header or names, strict=True))
    # Joined files repeat their header.
    rows = [row for row in rows if [row.get(name) for name in names] != [*names]] or rows
    if not rows or any(words_of(name) in _TEXT_NAMES for name in names):
        return False
    has_text = has_value = has_sentence = has_name = False
    for key, name in written.items():
        if key.startswith(UNNAMED):
            continue
        cells = [cell for row in rows if (cell := str(row.get(key) or "").strip())]
        holds, is_alike = _Column(name, cells).holds, False
        if pattern := {"numbers": NUMBER, "dates": _DATE}.get(holds):
            is_alike = pattern.fullmatch(name.strip()) is not None
            if not is_alike and all(map(pattern.fullmatch, cells)):
                return False
            has_value |= is_alike
        has_text |= (
            holds in ("texts", "short texts")
            and len(_WORD.findall(name)) >= 4
            and not ASKS.search(name)
        )
        # An option of a survey is the name of its column, and is in the rows that chose it.
        is_option = len(set(cells)) == 1 and len(cells) < len(rows)
        is_one_of = (
            holds in ("labels", "one value", "short texts")
            and name.strip() in cells
            and not is_option
        )
        has_value |= is_one_of
        is_sentence = holds == "texts" and _is_sentence(name)
        has_sentence |= is_sentence
        is_value = is_alike or is_one_of or all(map(_CODE.fullmatch, [name.strip(), *cells]))
        has_name |= not (is_sentence or is_value)
    return (has_text and has_value) or (has_sentence and not has_name)


def _is_sentence(name: str) -> bool:
    """Whether a cell of the first line is what somebody wrote, and no name of a column.

    Names of columns can be long, and survey items are phrases without a full stop.
    """
    words = _WORD.findall(name.casefold())
    if len(words) < _SENTENCE_WORDS or ASKS.search(name):
        return False
    return name.rstrip().endswith(_ENDS) and (_TEXT_NAMES | _ASKED).isdisjoint(words)


def extra_header_rows(names: Sequence[str], rows: Sequence[Row]) -> int:
    """Return how many rows below the header belong to it, as in exports of surveys.

    Qualtrics writes the questions and then the keys of its own import; SurveyMonkey writes the kind
    of each answer.
    """

    def cells(row: Row) -> list[str]:
        return [str(value).strip() for value in row.values() if value not in (None, "")]

    if len(rows) > 1 and any(_IMPORT_ID.search(cell) for cell in cells(rows[1])):
        return 2
    if not rows or not (first := cells(rows[0])):
        return 0
    below = [cell.lower() in _SUB_HEADERS for cell in first]
    if any(words_of(name) == "respondent id" and not rows[0].get(name) for name in names):
        return int(any(below))  # next to the options of questions that have several
    return int(all(below) and 2 * len(first) <= max(len(names), 2))


def words_of(name: str) -> str:
    """Return a column's name as lower-case words: "reviewText" and "Review_Text" are alike."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join(re.findall(r"[^\W_]+", apart.casefold()))


def is_sure_name(name: str) -> bool:
    return words_of(name) in _SURE_NAMES


def _role_of(name: str) -> _Role:
    words = words_of(name)
    parts = words.split()
    if words in _TEXT_NAMES:
        return "text"
    is_reply = bool(_REPLY_WORDS.intersection(parts)) and not ASKS.search(name)
    if is_reply or _RESPONSE_OF.search(name) or words in ("last message", "review response"):
        return "reply"
    if ASKS.search(name) and len(parts) > 2:
        return "question"
    others = _OTHER_WORDS.intersection(parts)
    if others and len(parts) <= 5:
        return "text" if others <= _ABOUT_WORDS and parts[-1] in _TEXT_NAMES else "other"
    if any(part in _TEXT_NAMES for part in parts) and len(parts) <= 5:
        return "text"
    return "question" if len(parts) > 5 else "unknown"


def _column(name: str, values: Iterable[Any]) -> _Column:
    cells = [text for value in values if (text := "" if value is None else str(value).strip())]
    return _Column(name, cells, _role_of(name))


def _rank(column: _Column) -> tuple[Any, ...]:
    roles = ("text", "question", "unknown", "other", "reply")
    is_text = column.holds in ("texts", "short texts")
    return not column.is_candidate, not is_text, roles.index(column.role), -column.words


def _praise_and_complaint(columns: Sequence[_Column]) -> tuple[str, str] | None:
    sides = [
        [c.name for c in columns if words.intersection(words_of(c.name).split())]
        for words in (
            {"positive", "pros", "pro", "liked", "likes", "praise", "strengths", "advantages"},
            {"negative", "cons", "con", "disliked", "dislikes", "complaint", "weaknesses"},
        )
    ]
    return (sides[0][0], sides[1][0]) if sides[0] and sides[1] else None


def _short(cell: str) -> str:
    return cell if len(cell) <= 40 else f"{cell[:39]}…"
