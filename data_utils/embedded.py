"""The embedded corpus: synthetic reviews in memory, in the form of a prepared corpus."""

import hashlib

from model.text.profiles import text_profile
from model.text.split import Split, encode_split

from .corpus import BYTES_VERSION, SPLITS, Corpus
from .synthetic import synthetic_reviews

# Reviews per split. The labelled sets for transfer use other seeds, so no review is in both.
REVIEWS = {"train": 16_000, "valid": 400, "test": 400}
SEEDS = {"train": 1, "valid": 2, "test": 3}
LABELLED_SEEDS = {"train": 11, "val": 12, "test": 13}
LABELLED_REVIEWS = {"train": 2_000, "val": 500, "test": 1_000}


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
    return Corpus(splits, {**meta, "splits": sizes, "sources": ["embedded"]})


def _split(name: str) -> Split:
    reviews = synthetic_reviews(REVIEWS[name], SEEDS[name])
    return encode_split((review.text for review in reviews), text_profile("openai"))
