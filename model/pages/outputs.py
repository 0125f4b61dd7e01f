"""The files that a heatmap can become; checked without torch, before a model is loaded."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import InputError

PAGES = (".html", ".htm")
PICTURES = (".svg", ".png")
LARGEST_PAGE = 100_000  # characters, each an HTML element; browsers are slow beyond
LARGEST_PICTURE = 5_000  # characters; for more, a page


def check_page(option: str, page: Path | None, rows: Path | None = None) -> None:
    """Raise InputError for a page without a suffix of one, or in the place of the rows."""
    if page is None:
        return
    if page.suffix.lower() not in PAGES:
        raise InputError(f"{option} {page}: the name must end in .html")
    if rows is not None and page.resolve() == rows.resolve():
        raise InputError(f"{option} {page}: is the --output, too; name another file")


def check_outputs(paths: Sequence[Path], texts: Sequence[str]) -> None:
    """Raise InputError for an unknown suffix, a size too large to show, or no matplotlib."""
    size = sum(map(len, texts))
    for path in paths:
        if path.suffix.lower() not in (*PAGES, *PICTURES, ".json"):
            raise InputError(f"{path}: the name must end in .html, .json, .svg or .png")
        if path.suffix.lower() in PICTURES and size > LARGEST_PICTURE:
            raise InputError(
                f"{path}: {size:,} characters are more than a picture can show "
                f"({LARGEST_PICTURE:,}); give fewer texts, or a name that ends in .html"
            )
        if path.suffix.lower() in PICTURES and find_spec("matplotlib") is None:
            raise InputError(f"{path}: pictures need matplotlib: pip install matplotlib")
        if path.suffix.lower() != ".json" and size > LARGEST_PAGE:
            raise InputError(
                f"{path}: {size:,} characters are more than a page can show ({LARGEST_PAGE:,}); "
                "give fewer texts, or a name that ends in .json"
            )
