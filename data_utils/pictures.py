"""Pictures of results: whatever a label holds, and whatever fails, results are kept."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def drawing(path: Path) -> Iterator[None]:
    """Let what fails in drawing a file be one line of warning: the results are written already."""
    try:
        yield
    except Exception as error:  # matplotlib has many kinds of them, none of its own
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning("warning: %s could not be drawn (%s); the results are whole", path, reason)


def literal(text: str) -> str:
    """Return a label that matplotlib shows as it stands: no formula, and none left out."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
