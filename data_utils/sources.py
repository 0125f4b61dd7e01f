"""Where text comes from: a prepared corpus, or the embedded one."""

from pathlib import Path

from model.errors import InputError
from model.text.profiles import TextProfile
from model.text.split import Split
from model.text.tokenizer import Tokenizer, check_same_tokenizer

from .corpus import Corpus, open_corpus
from .embedded import embedded_corpus


def load_corpus(folder: Path | None) -> Corpus:
    """Open a prepared corpus; None is the embedded synthetic reviews."""
    return embedded_corpus() if folder is None else open_corpus(folder)


def corpus_split(
    corpus: Corpus, path: Path, name: str, profile: TextProfile, tokenizer: Tokenizer
) -> Split:
    """Return a split of the corpus at a path, for a model of this profile and tokenizer.

    Raises InputError if the corpus has another profile or tokenizer, or if the split is empty.
    """
    if corpus.text_profile != profile.name:
        raise InputError(
            f"{path}: made with text profile {corpus.text_profile!r}, the model reads "
            f"{profile.name!r}; prepare the corpus again with --text-profile {profile.name}"
        )
    check_same_tokenizer(path, corpus.tokenizer, tokenizer, "the model's")
    split = corpus.splits[name]
    if not split.reviews:
        raise InputError(f"{path}: no reviews to score")
    return split
