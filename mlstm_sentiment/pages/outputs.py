"""The files that a heatmap can become; checked without torch, before a model is loaded."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError

_PAGES = (".html", ".htm")
_LARGEST_PAGE = 100_000  # characters, each an HTML element; browsers are slow beyond


def check_page(option: str, page: Path | None, rows: Path | None = None) -> None:
    """Raise InputError for a page without a suffix of one, or in the place of the rows."""
    if page is None:
        return
    if page.suffix.lower() not in _PAGES:
        raise InputError(f"{option} {page}: the name must end in .html")
    if rows is not None and page.resolve() == rows.resolve():
        raise InputError(f"{option} {page}: is the --output, too; name another file")


def check_outputs(paths: Sequence[Path], texts: Sequence[str]) -> None:
    """Raise InputError for an unknown suffix, or a size too large to show."""
    size = sum(map(len, texts))
    for path in paths:
        if path.suffix.lower() not in (*_PAGES, ".json"):
            raise InputError(f"{path}: the name must end in .html or .json")
        if path.suffix.lower() != ".json" and size > _LARGEST_PAGE:
            raise InputError(
                f"{path}: {size:,} characters are more than a page can show ({_LARGEST_PAGE:,}); "
                "give fewer texts, or a name that ends in .json"
            )
