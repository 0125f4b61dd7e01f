"""Cells that are no opinion: empty, placeholders, errors of a spreadsheet, totals, headers."""

import re
import tomllib
from functools import cache
from pathlib import Path

from ..text.markup import without_tags
from ..text.profiles import unescape
from .columns import ASKS

NO_TEXT = "there is no text"
_HEADER = "it repeats the header"
_NOTHING = "it answers a question with nothing"
_NO = "it answers an open question with no"
_YES_OR_NO = re.compile(
    r"(would|will|do|does|did|is|are|was|were|have|has|should)\b", re.IGNORECASE
)  # how a question begins that they answer
_LONGEST = 40  # characters of the longest entry, and some


def reason_of_no_answer(text: str | None, column: str | None = None) -> str | None:
    """Return why a cell is no answer, in words that follow its text; None for an answer.

    text: None if it is missing; HTML tags are left out, and `&nbsp;` is a blank. column: its
    header. A question there decides what "nothing" means: below "What could we improve?" it is no
    complaint.

        reason_of_no_answer("N/A")  # 'nothing was written'
        reason_of_no_answer("nothing")  # None: two words more, and it is a review
        reason_of_no_answer("nothing", "What could we improve?")
    """
    text = "" if text is None else unescape(without_tags(text)).strip()
    if not text:
        return NO_TEXT
    if len(text) > _LONGEST and (column is None or len(text) > len(column) + 2):
        return None
    plain = " ".join(text.split()).casefold().replace("\u2019", "'")
    if column is not None and plain == " ".join(column.split()).casefold():
        return _HEADER
    reasons = _reasons()
    reason = reasons.get(plain) or reasons.get(plain.strip(" .!'\"\u201c\u201d"))
    if reason in (_NOTHING, _NO) and (column is None or not ASKS.search(column)):
        return None
    if reason == _NO and _YES_OR_NO.match(column or ""):
        return None
    return reason


def answered_text(text: str | None, column: str | None = None) -> str | None:
    """Return a cell's text; None for one that is no answer. column: as above."""
    return None if reason_of_no_answer(text, column) else text


def placeholders() -> dict[str, str]:
    """Return the cells that are no answer below any header, in lower case, each with the reason."""
    return {cell: why for cell, why in _reasons().items() if why not in (_NOTHING, _NO)}


@cache
def _reasons() -> dict[str, str]:
    content = Path(__file__).with_name("no_answer.toml").read_text(encoding="utf-8")
    return {cell: reason for reason, cells in tomllib.loads(content).items() for cell in cells}
