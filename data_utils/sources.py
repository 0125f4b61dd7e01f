"""Where text comes from: a prepared corpus, or the embedded one, synthetic reviews in memory."""

import hashlib
from pathlib import Path

from model.errors import InputError
from model.files.tokenizers import check_same_tokenizer
from model.text.profiles import TextProfile, text_profile
from model.text.split import Split, encode_split
from model.text.tokenizer import Tokenizer

from .corpus import BYTES_VERSION, EMBEDDED, SPLITS, Corpus, open_corpus
from .synthetic import synthetic_reviews

# Reviews per split. The labelled sets for transfer use other seeds, so no review is in both.
REVIEWS = {"train": 16_000, "valid": 400, "test": 400}
SEEDS = {"train": 1, "valid": 2, "test": 3}
LABELLED_SEEDS = {"train": 11, "val": 12, "test": 13}
LABELLED_REVIEWS = {"train": 2_000, "val": 500, "test": 1_000}


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


def embedded_corpus() -> Corpus:
    """Make the corpus that a run without `data.corpus` reads; its bytes are always the same."""
    splits = {name: _split(name) for name in SPLITS}
    sizes = {
        name: {
            "reviews": split.reviews,
            "bytes": len(split.tokens),
            "sha256": hashlib.sha256(split.tokens.tobytes()).hexdigest(),
        }
        for name, split in splits.items()
    }
    meta = {"format_version": BYTES_VERSION, "tokenizer": "bytes", "text_profile": "openai"}
    return Corpus(splits, {**meta, "splits": sizes, "sources": EMBEDDED})


def _split(name: str) -> Split:
    reviews = synthetic_reviews(REVIEWS[name], SEEDS[name])
    return encode_split((review.text for review in reviews), text_profile("openai"))
