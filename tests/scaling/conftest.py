"""A corpus of pieces of words."""

import json

import pytest

from data_utils.preparation.preparation import Preparation, prepare_corpus
from data_utils.preparation.vocabulary import VocabularyConfig
from data_utils.synthetic import synthetic_reviews

PIECES = 320  # V


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """The folder of a corpus whose tokens are `PIECES` pieces of words."""
    folder = tmp_path_factory.mktemp("pieces")
    texts = [review.text for review in synthetic_reviews(200, seed=8)]
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    vocabulary = VocabularyConfig(tokenizer="bpe", size=PIECES)
    settings = Preparation(split=(8, 1, 1), vocabulary=vocabulary)
    prepare_corpus([folder / "in.jsonl"], folder / "corpus", settings, workers=1)
    return folder / "corpus"
