"""Where a run's corpus comes from: a prepared folder, or the embedded one."""

from pathlib import Path

from .corpus import Corpus, open_corpus
from .embedded import embedded_corpus


def load_corpus(folder: Path | None) -> Corpus:
    """Open a prepared corpus; None is the embedded synthetic reviews."""
    return embedded_corpus() if folder is None else open_corpus(folder)
