"""Console output of a training run, which continues if the console is closed."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from model.commands.program import drop

GONE = (errno.EPIPE, errno.EIO)  # a pipe without a reader, a terminal that was closed


@contextmanager
def outliving_the_reader() -> Iterator[None]:
    """Print within this context: a reader that leaves, as a `tee` after a logout, ends nothing."""
    try:
        yield
    except OSError as error:
        if error.errno not in GONE:
            raise
        drop(sys.stdout)
        try:
            print("nobody reads stdout any more; the training goes on", file=sys.stderr, flush=True)
        except OSError:
            drop(sys.stderr)
