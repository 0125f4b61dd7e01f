"""A corpus of subword tokens."""

import pytest

from data_utils.preparation.preparation import Preparation, prepare_corpus
from data_utils.synthetic import synthetic_reviews
from tests.data_utils.splits import write_texts

PIECES = 320  # V


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """The folder of a corpus whose vocabulary has `PIECES` subword tokens."""
    folder = tmp_path_factory.mktemp("pieces")
    texts = [review.text for review in synthetic_reviews(200, seed=8)]
    source = write_texts(folder / "in.jsonl", texts)
    settings = Preparation(split=(8, 1, 1), tokenizer="bpe", vocabulary_size=PIECES)
    prepare_corpus([source], folder / "corpus", settings)
    return folder / "corpus"
