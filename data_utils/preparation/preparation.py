"""From reviews to a shuffled, split corpus: in parallel, in bounded memory, resumable.

Every review gets a 64-bit key, a seeded bijection of its place in the input. The corpus is the
reviews sorted by key, cut into train, valid and test. First, blocks of the input are encoded,
sorted and written as runs; then the runs are merged, one stretch of keys at a time. Neither the
number of processes nor the size of the stretches changes the result, a corpus of bytes. For a
corpus of a vocabulary's tokens, this text is then encoded.
"""

import hashlib
import json
import logging
import math
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from mlstm_sentiment.bounds import Argument, NonNegativeInt, check_unset
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import (
    foreign_files,
    inside,
    listed,
    one_at_a_time,
    read_json,
    recover_folders,
    remove_folder,
)
from mlstm_sentiment.files.tokenizers import save_tokenizer
from mlstm_sentiment.files.writer import (
    check_folder,
    open_work,
    path_in_oserrors,
    remove_work,
    set_aside,
    write_json,
)
from mlstm_sentiment.reading.inputs import Input, TableOptions
from mlstm_sentiment.reading.tables import TableReport
from mlstm_sentiment.reading.texts import KeyChooser, ReadingReport, describe_table
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer

from ..corpus import (
    BLOCK_FOLDER,
    BYTES_VERSION,
    CORPUS_FILES,
    FORMAT_VERSION,
    META_FILE,
    PARTIAL,
    SPLITS,
    offsets_file,
    open_corpus,
    tokens_file,
)
from .blocks import BLOCK_BYTES, Request
from .expansion import expand
from .runs import Run, encode, find_repeats, from_stored, holds_reviews, merge
from .vocabulary import Text, VocabularyConfig, make_tokenizer, tokenize

_COMPARED = 4_000_000  # reviews whose digests are compared at a time, to find duplicates
_TEXT_FOLDER = "text"  # the text of a corpus that will be encoded with a vocabulary
_TRAINING_LOG = "training.log"  # of the vocabulary's trainer
_REQUEST_FILE = ".mlstm_sentiment.request"  # in a corpus: the digest of what it is made of
_WORK_FILES = (
    *(*CORPUS_FILES, _REQUEST_FILE),
    *inside(BLOCK_FOLDER, ("block-*", "source-*.json")),
    *inside(_TEXT_FOLDER, (*CORPUS_FILES, _TRAINING_LOG)),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Preparation(VocabularyConfig):
    """How a corpus is made from its inputs."""

    text_key: str | Sequence[str] | None = None
    table: TableOptions = field(default_factory=TableOptions)
    split: Annotated[tuple[float, ...], Argument(separator=",", metavar="A,B,C")] = (1000, 1, 1)
    """Proportions of train, valid and test, as in 1000,1,1."""
    seed: NonNegativeInt = 0
    """Seed of the reviews' order."""
    text_profile: str = "openai"
    """How a text is cleaned and framed: openai, nvidia, tweet or raw. A text of which this leaves
    nothing, as tweet does of one in Chinese, is left out and counted as empty."""
    strict: bool = False
    """Refuse bytes that are not UTF-8, lone surrogates and HTML references that cannot be read,
    instead of replacing or keeping and counting them."""
    documents: bool = False
    """Take each text file as one review, not each of its lines."""
    deduplicate: bool = False
    """Of reviews that are equal byte for byte, keep only the first."""
    keep_order: bool = False
    """Keep the reviews in the order of the input, as Puri et al.'s code did before it split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_right = len(self.split) == len(SPLITS) and math.isfinite(sum(self.split))
        if not is_right or min(self.split) < 0 or self.split[0] <= 0:
            raise InputError(
                f"--split {','.join(f'{part:g}' for part in self.split)}: expected three parts for "
                "train, valid and test, none negative, the first above zero, as in 1000,1,1"
            )
        text_profile(self.text_profile)


def prepare_corpus(
    inputs: Sequence[str | Path], output: Path, preparation: Preparation, workers: int = 1
) -> dict[str, Any]:
    """Turn files of reviews into the corpus folder `output`; return its `meta.json`.

        preparation = Preparation(split=(98, 1, 1), deduplicate=True)
        prepare_corpus(["reviews.jsonl.gz"], Path("data/reviews"), preparation, workers=4)

    inputs: files, folders and patterns, as `expand` reads them. The work happens in
    `output` + ".partial", so `output` exists only when it is complete. After an interruption, the
    next call for the same output reuses the blocks that it finds there, if they were made of the
    same input in the same way. If the same call has made `output` before, it is left as it is.
    Raises InputError for inputs that cannot be read, if `output` exists otherwise, and TryAgain if
    another process is preparing it.
    """
    sources = expand(inputs, preparation.table)
    _check_used(preparation, sources)
    request = _digest_of(sources, output, preparation)
    with new_corpus(output, request) as meta:
        return meta or _prepare(sources, output, preparation, workers, request)


def _check_used(preparation: Preparation, sources: Sequence[Input]) -> None:
    """Raise InputError for a setting that does nothing with the others, or for these inputs."""
    if not any(source.kind == ".txt" for source in sources):
        check_unset(preparation, ("documents",), "is for text files")
    if preparation.is_trained:
        return
    of_training = ("vocabulary_size", "tokenizer_sample")
    check_unset(preparation, of_training, "is for --tokenizer bpe or unigram")
    if preparation.keep_order:
        check_unset(preparation, ("seed",), "shuffles nothing with --keep-order")


def check_corpus(folder: Path) -> dict[str, Any]:
    """Check every byte of the splits against meta.json; return its entries, or raise InputError."""
    sizes: dict[str, Any] = open_corpus(folder).meta["splits"]  # checks the vocabulary, too
    for name in SPLITS:
        paths = {"sha256": tokens_file(name), "offsets_sha256": offsets_file(name)}
        for key, path in ((key, folder / file) for key, file in paths.items()):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            # Corpora of the first release have no digest of the offsets.
            if digest != (expected := sizes[name].get(key, digest)):
                raise InputError(
                    f"{path}: has changed since it was prepared (SHA-256 {digest[:16]}..., "
                    f"{META_FILE} says {expected[:16]}...); prepare the corpus again"
                )
    return sizes


def _digest_of(sources: Sequence[Input], output: Path, preparation: Preparation) -> str:
    """Return a digest of all that decides the content of a corpus, and of its name."""
    read = [source.identity for source in sources]
    settings = [repr(getattr(preparation, item.name)) for item in fields(Preparation)]
    borrowed = preparation.borrowed
    vocabulary = [] if borrowed is None else [borrowed.describe()]
    content = json.dumps([output.name, read, BLOCK_BYTES, settings, *vocabulary])
    return hashlib.sha256(content.encode()).hexdigest()


@contextmanager
def new_corpus(output: Path, request: str = "") -> Iterator[dict[str, Any] | None]:
    """Let this process alone make the corpus folder `output`, which must not exist.

    request: what it is made of. If it exists and was made of the same, its description is yielded.
    """
    if not output.name:  # "." or "/", which exist
        raise InputError(f"{output}: name a new folder for the corpus")
    if output.parent.is_file():
        raise InputError(f"{output}: {output.parent} is a file, not a folder; name another")
    output.parent.mkdir(parents=True, exist_ok=True)
    busy = f"{output}: another process is preparing it; wait, or name another folder"
    with one_at_a_time(set_aside(output, "lock"), busy):
        if not os.path.lexists(output):  # also a broken link
            with path_in_oserrors(output):
                yield None
        elif _is_finished(output, request):
            log.info("%s: already done", output)
            yield open_corpus(output).meta
        else:
            raise InputError(f"{output}: exists already; remove it or name another folder")


def _is_finished(folder: Path, request: str) -> bool:
    """Return whether a folder holds the whole corpus of a request: meta.json is written last."""
    places = folder / META_FILE, folder / _REQUEST_FILE
    return all(place.is_file() for place in places) and places[1].read_text("utf-8") == request


def _finish(partial: Path, output: Path) -> dict[str, Any]:
    """Leave only the corpus in a work folder, give it its name, and return its description."""
    recover_folders(partial, _WORK_FILES)
    for name in (BLOCK_FOLDER, _TEXT_FOLDER):
        remove_folder(partial / name)
    meta = read_json(partial / META_FILE)
    partial.rename(output)
    return meta


def _prepare(
    sources: Sequence[Input],
    output: Path,
    preparation: Preparation,
    workers: int,
    request: str,
) -> dict[str, Any]:
    partial = output.with_name(output.name + PARTIAL)
    check_folder(partial)
    if _is_finished(partial, request):  # killed before the last rename
        return _finish(partial, output)
    _open_work_folder(partial)
    blocks, text = partial / BLOCK_FOLDER, partial
    tokenizer: Tokenizer = BYTES
    try:
        if not preparation.is_bytes:
            text = partial / _TEXT_FOLDER
            text.mkdir()
        sizes, reading = _sort(sources, blocks, text, preparation, workers)
        if text != partial:
            whole = Text(text, sizes)
            tokenizer = make_tokenizer(preparation, whole, preparation.seed, text / _TRAINING_LOG)
            sizes = tokenize(whole, tokenizer, partial, workers)
            save_tokenizer(partial, tokenizer)
    except InputError:
        if holds_reviews(blocks):
            log.info(
                "%s: kept; once the error is fixed, the same --output continues from it", partial
            )
        else:
            remove_folder(partial)
        raise
    meta = {
        "format_version": BYTES_VERSION if tokenizer is BYTES else FORMAT_VERSION,
        **tokenizer.describe(),
        "text_profile": preparation.text_profile,
        "seed": preparation.seed,
        "shuffled": not preparation.keep_order,
        "deduplicated": preparation.deduplicate,
        "split": list(preparation.split),
        "splits": sizes,
        "sources": [source.name for source in sources],
        "reading": reading,
    }
    with open_work(partial / _REQUEST_FILE, "w") as file:
        file.write(request)
    write_json(partial / META_FILE, meta, None)
    return _finish(partial, output)


def _sort(
    sources: Sequence[Input], blocks: Path, text: Path, preparation: Preparation, workers: int
) -> tuple[dict[str, Any], dict[str, int]]:
    """Write the splits as bytes; return their sizes and what was counted while reading."""
    request = Request(
        KeyChooser(preparation.text_key).requested,
        preparation.text_profile,
        preparation.strict,
        preparation.documents,
        preparation.deduplicate,
        BLOCK_BYTES,
    )
    seed = None if preparation.keep_order else preparation.seed
    runs = encode(sources, blocks, request, seed, workers)
    _check_keys(sources, runs, request.text_keys)
    reports = (from_stored(ReadingReport, run.report["reading"]) for run in runs)
    report = sum(reports, ReadingReport())
    log.info(report.summary())
    reviews, duplicates, repeats = sum(run.report["reviews"] for run in runs), 0, None
    if preparation.deduplicate:
        repeats = find_repeats(runs, _COMPARED)
        duplicates = sum(int(each.sum()) for each in repeats)
        log.info("%s duplicates left out", f"{duplicates:,}")
    sizes = merge(
        runs,
        text,
        _split_counts(reviews - duplicates, preparation.split),
        shuffled=not preparation.keep_order,
        repeats=repeats,
    )
    return sizes, {**vars(report), "duplicates": duplicates}


def _open_work_folder(folder: Path) -> None:
    """Make a folder to work in; of earlier work, keep only the blocks, each with its origin."""
    if (folder / META_FILE).exists() and not (folder / BLOCK_FOLDER).exists():
        raise InputError(
            f"{folder}: is needed as a work folder, but holds a finished corpus; rename it"
        )
    recover_folders(folder, _WORK_FILES)  # otherwise half a file could end up in the corpus
    if folder.is_file() or (foreign := foreign_files(folder, _WORK_FILES, is_whole=False)):
        state = f"holds {listed(foreign)}" if folder.is_dir() else "is a file"
        raise InputError(f"{folder}: is needed as a work folder, but {state}; move it away")
    blocks = folder / BLOCK_FOLDER
    if blocks.is_dir():
        log.info("continuing with %s", folder)
    blocks.mkdir(parents=True, exist_ok=True)
    for left in folder.iterdir():
        if left.is_dir() and left != blocks:
            shutil.rmtree(left)
        elif left != blocks:
            remove_work(left)


def _check_keys(inputs: Sequence[Input], runs: Sequence[Run], text_keys: Sequence[str]) -> None:
    """Log the keys of the texts; InputError for an input without records or without a key."""
    reports_of = defaultdict[int, list[dict[str, Any]]](list)
    for run in runs:
        reports_of[run.input_number].append(run.report)
    for number, source in enumerate(inputs):
        reports = reports_of[number]
        key_counts = sum((Counter(report["found_keys"]) for report in reports), Counter())
        records = sum(report["reading"]["records"] for report in reports)
        if not records:
            raise InputError(f"{source.location}: no records in it")
        stored = [report["table"] for report in reports if report.get("table")]
        tables = [from_stored(TableReport, table) for table in stored]
        if not key_counts:
            if doubt := next((table.doubt for table in tables if table.doubt), None):
                raise InputError(f"{source.location}: {doubt}")
            present = ", ".join(next((map(repr, r["keys"]) for r in reports if r["keys"]), ()))
            raise InputError(
                f"{source.location}: no key {text_keys[0]!r} among its keys ({present or 'none'}); "
                "name one with --text-key"
            )
        if source.kind != ".txt":
            table = TableReport(source.location, "JSON lines", records, is_table=False)
            key, _ = key_counts.most_common(1)[0]
            log.info("%s", describe_table((tables or [table])[-1], {"text": (key, "--text-key")}))


def _split_counts(reviews: int, parts: Sequence[float]) -> list[int]:
    """Divide reviews in proportion, with at least one for every part that is not zero."""
    nonzero = sum(part > 0 for part in parts)
    if reviews < nonzero:
        raise InputError(
            f"{reviews} reviews cannot fill {nonzero} splits; give more reviews, or a --split "
            "with zeros, as in 1,0,0"
        )
    edges = np.rint(np.cumsum(parts) / np.sum(parts) * reviews).astype(int)
    counts = np.diff(edges, prepend=0).tolist()
    for index, part in enumerate(parts):
        if part > 0 and counts[index] == 0:
            counts[index] += 1
            counts[int(np.argmax(counts))] -= 1
    return counts
