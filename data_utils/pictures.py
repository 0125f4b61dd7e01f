"""Figures of results: any label can be drawn, and a failed figure does not end the command."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def drawing(path: Path) -> Iterator[None]:
    """Turn an error in drawing a file into a warning, since the results are already written."""
    try:
        yield
    except Exception as error:  # matplotlib raises many kinds, without a common base class
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning("warning: %s could not be drawn (%s); the results are complete", path, reason)


def literal(text: str) -> str:
    """Return a label that matplotlib shows literally: never as a formula, never hidden."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
