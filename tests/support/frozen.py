"""Compare the tables that no code makes any more with the results that they were made from.

The pages of closed studies are text. `frozen` in the results.json of a study lists the numbers in
the tables of such a page, in order: [RESULT#KEYS, VALUE] for what was measured (RESULT is a file of
revision 7183e653, or results.json of 94c10db0; VALUE is not rounded), and the text of the number
for everything else: sizes, published values, and what was worked out from several results. To
change a number on purpose, change both.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from experiments.results import EXPERIMENTS, FILE, read_study
from experiments.tables import MADE, ROOT

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def frozen_numbers() -> dict[str, list[Any]]:
    """Return the recorded numbers of every page, by its path in the repository."""
    studies = (path.parent.relative_to(EXPERIMENTS) for path in EXPERIMENTS.rglob(FILE))
    return {
        page: list(numbers)
        for study in studies
        for page, numbers in read_study(study.as_posix())["frozen"].items()
    }


def numbers_on(page: str) -> list[str]:
    """Return the numbers in the tables of a page that no code makes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [number for row in frozen_rows(text) for number in NUMBER.findall(row)]


def frozen_rows(text: str) -> Iterator[str]:
    """Yield the rows of the tables of a page that no code makes."""
    without = CODE.sub("", MADE.sub("", text))
    yield from (line for line in without.splitlines() if line.startswith("|"))


def agrees(printed: str, recorded: str | Sequence[Any]) -> bool:
    """Return whether a printed number is the recorded one, rounded to the digits printed."""
    if isinstance(recorded, str):
        return printed == recorded
    shown = Decimal(printed.replace(",", ""))
    unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    return abs(shown - Decimal(recorded[1])) <= unit / 2 * Decimal("1.000001")
