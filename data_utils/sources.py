"""Where text comes from: a prepared corpus, the embedded one, or a file."""

import logging
from pathlib import Path

from model.errors import InputError
from model.text.profiles import TextProfile
from model.text.tokenizer import Tokenizer, check_same_tokenizer

from .corpus import Corpus, Split, encode_split, open_corpus
from .embedded import embedded_corpus
from .reading.texts import ReadingReport, read_texts

log = logging.getLogger(__name__)


def load_corpus(folder: Path | None) -> Corpus:
    """Open a prepared corpus; None is the embedded synthetic reviews."""
    return embedded_corpus() if folder is None else open_corpus(folder)


def load_split(
    path: Path, name: str, profile: TextProfile, tokenizer: Tokenizer, text_key: str | None
) -> Split:
    """Return a split of a prepared corpus, or the texts of a file encoded as a model reads them.

    Raises InputError where the corpus has another profile or tokenizer, or the split is empty.
    """
    if path.is_dir():
        corpus = open_corpus(path)
        if corpus.text_profile != profile.name:
            raise InputError(
                f"{path}: made with text profile {corpus.text_profile!r}, the model reads "
                f"{profile.name!r}; prepare the corpus again with --text-profile {profile.name}"
            )
        check_same_tokenizer(path, corpus.tokenizer, tokenizer, "the model's")
        split = corpus.splits[name]
    else:
        report = ReadingReport()
        texts = read_texts([path], text_key, report, strict=False)
        split = encode_split(texts, profile, tokenizer)
        log.info(report.summary())
    if not split.reviews:
        raise InputError(f"{path}: no reviews to score")
    return split
