"""Splits whose tokens say where they stand, and files of texts for a corpus."""

import json
from itertools import pairwise

import numpy as np

from data_utils.corpus import open_corpus
from mlstm_sentiment.text.split import Split
from tests.support.folders import contents


def make_split(sizes):
    """Reviews of the given sizes; byte values follow their position, so a window shows its own."""
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    return Split(np.arange(offsets[-1]).astype(np.uint8), offsets)


def reviews_of(split):
    """The reviews of a split, as bytes of text, read without the code that writes them."""
    return [split.tokenizer.decode(split.tokens[a:b]) for a, b in pairwise(split.offsets.tolist())]


def reviews_in(folder, name="train"):
    """The reviews of a split of the corpus in a folder."""
    return reviews_of(open_corpus(folder).splits[name])


def files_of(folder):
    """The contents of a folder's files by their names."""
    return {path.name: path.read_bytes() for path in contents(folder)}


def write_texts(path, texts):
    """Write texts as JSON lines and return the path."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path
