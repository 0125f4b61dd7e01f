"""What a training says on the console, which may go away before it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from model.commands.program import drop_stdout

log = logging.getLogger(__name__)


@contextmanager
def outliving_the_reader() -> Iterator[None]:
    """Print within this context: a reader that leaves, as a `tee` after a logout, ends nothing."""
    try:
        yield
    except BrokenPipeError:
        drop_stdout()
        log.warning("nobody reads what is printed any more; metrics.jsonl goes on")
