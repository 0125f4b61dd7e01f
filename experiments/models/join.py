"""Join prepared corpora: the train splits of all, shuffled, with valid and test of the first.

python -m experiments.models.join data/reviews data/films --output data/both

A model that also reads other text is scored on the same held-out reviews as before, so its bits
per character compare with those of a model that did not.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from configs import command
from data_utils.corpus import (
    CORPUS_FILES,
    META_FILE,
    SPLITS,
    Corpus,
    offsets_file,
    open_corpus,
    tokens_file,
)
from data_utils.preparation.preparation import new_corpus
from data_utils.preparation.runs import SplitWriter
from mlstm_sentiment.bounds import Argument, NonNegativeInt
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import whole_folder
from mlstm_sentiment.files.tokenizers import check_same_tokenizer, save_tokenizer
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.split import Split
from mlstm_sentiment.text.tokenizer import BYTES

_TRAIN, *_HELD_OUT = SPLITS
_REVIEWS_AT_ONCE = 1 << 12  # that are in memory together

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Join prepared corpora: all train splits, shuffled, with valid and test of the first."""

    corpora: Annotated[tuple[Path, ...], Argument(positional=True, metavar="CORPUS")]
    """Corpus folders, two or more, of one text profile and one tokenizer."""
    output: Path
    """The corpus folder to make; it must not exist."""
    seed: NonNegativeInt = 0
    """Seed of the reviews' order."""
    train_of_others: bool = False
    """Leave the first one's train split out: it gives valid and test alone."""


def main() -> None:
    options = command.parse(Options, __doc__)
    meta = join_corpora(
        options.corpora, options.output, options.seed, train_of_others=options.train_of_others
    )
    for name, size in meta["splits"].items():
        print(f"{name:<6} {size['reviews']:>10,} reviews {size['bytes']:>14,} bytes")


def join_corpora(
    folders: Sequence[Path], output: Path, seed: int = 0, *, train_of_others: bool = False
) -> dict[str, Any]:
    """Write the corpus folder `output` and return its `meta.json`.

    Its train split is that of all corpora, or of all but the first, the reviews in an order drawn
    by the seed. Valid and test are those of the first. Reviews of the others that are equal to one
    of these, byte for byte, are left out and counted. Reviews are read in their new order, so this
    is fast if the corpora fit in memory.

    Raises InputError for fewer than two corpora, for corpora of different tokenizers or text
    profiles, and if `output` exists or another process is writing it.
    """
    corpora = _open_alike(folders)
    with new_corpus(output), whole_folder(output, CORPUS_FILES) as partial:
        order = np.random.default_rng(seed).permutation(_train_reviews(corpora, train_of_others))
        meta = _describe(corpora, seed, _write_splits(corpora, folders[0], partial, order))
        save_tokenizer(partial, corpora[0].tokenizer)
        write_json(partial / META_FILE, meta, "part of a folder")
    return meta


def _open_alike(folders: Sequence[Path]) -> list[Corpus]:
    """Open corpora whose tokens and texts have one form."""
    if len(folders) < 2:
        raise InputError("give two corpora or more (valid and test come from the first)")
    corpora = [open_corpus(folder) for folder in folders]
    first, fingerprints = corpora[0], [corpus.fingerprint for corpus in corpora]
    for place, folder in enumerate(folders):
        if fingerprints[place] in fingerprints[:place]:
            same = folders[fingerprints.index(fingerprints[place])]
            log.warning("%s: is the same corpus as %s; train has its reviews twice", folder, same)
    for folder, corpus in zip(folders[1:], corpora[1:], strict=True):
        check_same_tokenizer(folder, corpus.tokenizer, first.tokenizer, f"that of {folders[0]}")
        if corpus.text_profile != first.text_profile:
            raise InputError(
                f"{folder}: has text profile {corpus.text_profile}, but {folders[0]} has "
                f"{first.text_profile}; prepare it with --text-profile {first.text_profile}"
            )
    return corpora


def _write_splits(
    corpora: Sequence[Corpus], first: Path, folder: Path, order: np.ndarray
) -> dict[str, Any]:
    """Write the splits; return their entries for meta.json. first: the first corpus's folder."""
    for name in _HELD_OUT:
        for file in (tokens_file(name), offsets_file(name)):
            shutil.copyfile(first / file, folder / file)
    train = _write_train([corpus.splits[_TRAIN] for corpus in corpora], order, folder)
    return {_TRAIN: train, **{name: corpora[0].meta["splits"][name] for name in _HELD_OUT}}


def _train_reviews(corpora: Sequence[Corpus], of_others: bool) -> np.ndarray:
    """Return the corpus and the place in it of every review to learn from, int64 [reviews, 2]."""
    first, *others = corpora
    held_out = {review for name in _HELD_OUT for review in _reviews(first.splits[name])}
    places = [np.arange(0 if of_others else first.splits[_TRAIN].reviews)]
    trains = [corpus.splits[_TRAIN] for corpus in others]
    for split in trains:
        is_new = (review not in held_out for review in _reviews(split))
        places.append(np.flatnonzero(np.fromiter(is_new, bool, split.reviews)))
    numbered = [np.stack([np.full_like(each, n), each], axis=1) for n, each in enumerate(places)]
    order = np.concatenate(numbered)
    left_out = sum(split.reviews for split in trains) - sum(map(len, places[1:]))
    log.info("%s reviews left out: they are in valid or test of the first corpus", f"{left_out:,}")
    return order


def _reviews(split: Split) -> Iterator[bytes]:
    for start, end in pairwise(split.offsets.tolist()):
        yield split.tokens[start:end].tobytes()


def _write_train(train: Sequence[Split], order: np.ndarray, folder: Path) -> dict[str, Any]:
    """Write the train split in an order, [reviews, 2]; return its entry for meta.json."""
    tokenizer, text_bytes = train[0].tokenizer, 0
    with (
        SplitWriter(folder, _TRAIN, len(order)) as writer,
        ProgressBar("joining", len(order), unit="reviews") as progress,
    ):
        for start in range(0, len(order), _REVIEWS_AT_ONCE):
            places = order[start : start + _REVIEWS_AT_ONCE].tolist()
            reviews = [_review(train[number], place) for number, place in places]
            tokens = np.concatenate(reviews)
            writer.append(tokens.tobytes(), np.array([len(review) for review in reviews]))
            text_bytes += tokenizer.count_bytes(tokens)
            progress.advance(len(reviews))
    tokens_in_all = {} if tokenizer is BYTES else {"tokens": writer.position}
    return {**writer.size(), **tokens_in_all, "bytes": text_bytes}


def _review(split: Split, place: int) -> np.ndarray:
    start, end = split.offsets[place : place + 2].tolist()
    return split.tokens[start:end]


def _describe(corpora: Sequence[Corpus], seed: int, sizes: dict[str, Any]) -> dict[str, Any]:
    first = corpora[0]
    reading = sum((Counter(corpus.meta["reading"]) for corpus in corpora), Counter[str]())
    return {
        **first.meta,
        "seed": seed,
        "shuffled": True,
        "deduplicated": False,
        "splits": sizes,
        "sources": [source for corpus in corpora for source in corpus.meta["sources"]],
        "reading": {name: reading[name] for name in first.meta["reading"]},
        "joined": [corpus.fingerprint for corpus in corpora],
    }


if __name__ == "__main__":
    command.run(main)
