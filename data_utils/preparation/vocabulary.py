"""The vocabulary of a corpus, trained on a sample of its train split or taken from elsewhere.

Then the text in its tokens, encoded in parallel: every review by itself, so neither the stretches
nor the number of processes changes the result.
"""

import logging
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mlstm_sentiment.bounds import Bound, check_bounds
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE, local_model
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.tokenizers import load_tokenizer
from mlstm_sentiment.files.writer import open_work
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.split import Split
from mlstm_sentiment.text.subwords import (
    SMALLEST_VOCABULARY,
    SubwordTokenizer,
    sentencepiece,
    train_vocabulary,
)
from mlstm_sentiment.text.tokenizer import BYTES, LARGEST_VOCABULARY, SUBWORD_KINDS, Tokenizer

from ..corpus import META_FILE, SPLITS, map_split
from .processes import CONTEXT, follow_parent, map_in_order
from .runs import SplitWriter

_LARGEST_SAMPLE = 1 << 31  # SentencePiece counts in 32 bits
_LONGEST_PIECE = 4096  # bytes of a review: in longer runs of one character, unigram takes minutes
_SECONDS_BETWEEN_LOOKS = 0.2
_TOKENIZED_BYTES = 4 << 20  # of text encoded at a time; takes many times as much memory
_Stretch = tuple[str, int, int]  # a split, its first review of some, and that after the last
_loaded = lru_cache(maxsize=1)(SubwordTokenizer)  # a process encodes many stretches

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """The kind of tokens of a corpus."""

    tokenizer: str = BYTES.kind
    """bytes; bpe or unigram: SentencePiece, trained on the train split; or the folder of a corpus
    or a model whose vocabulary to use, or a shipped model's name."""
    vocabulary_size: Annotated[int, Bound(min=SMALLEST_VOCABULARY, max=LARGEST_VOCABULARY)] = 8192
    """Tokens of a trained vocabulary, 258 to 65536."""
    tokenizer_sample: Annotated[int, Bound(min=1, max=_LARGEST_SAMPLE)] = 50_000_000
    """Most bytes of text to train a vocabulary on: whole reviews from all over the train split,
    drawn by the seed."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")
        if self.is_trained:
            sentencepiece()
        _ = self.borrowed  # refused here if there is none

    @property
    def is_bytes(self) -> bool:
        return self.tokenizer == BYTES.kind

    @property
    def is_trained(self) -> bool:
        return self.tokenizer in SUBWORD_KINDS

    @property
    def borrowed(self) -> Tokenizer | None:
        """The tokenizer of the corpus, model or run that was named; None if none was.

        Raises InputError if it has none.
        """
        if self.is_bytes or self.is_trained:
            return None
        model = local_model(self.tokenizer)
        for path in (Path(self.tokenizer, META_FILE), model / CONFIG_FILE if model else None):
            if path is not None and path.is_file():
                tokenizer = load_tokenizer(path.parent, read_json(path), path)
                if tokenizer.kind == BYTES.kind:
                    raise InputError(
                        f"--tokenizer {self.tokenizer}: its tokens are bytes; use --tokenizer bytes"
                    )
                return tokenizer
        raise InputError(
            f"--tokenizer {self.tokenizer}: neither bytes, {', '.join(SUBWORD_KINDS)}, nor the "
            "folder of a corpus or a model, nor a shipped model"
        )


class Text(NamedTuple):
    """Splits of bytes in a folder, of sizes as `merge` describes them.

    They are mapped where they are needed: a mapped split cannot be passed to a process.
    """

    folder: Path
    sizes: Mapping[str, Any]

    def map(self, name: str) -> Split:
        return map_split(self.folder, name, self.sizes[name]["reviews"], self.sizes[name]["bytes"])


def make_tokenizer(config: VocabularyConfig, text: Text, seed: int, log_file: Path) -> Tokenizer:
    """Train or load the vocabulary; log_file is for the trainer's output."""
    if (borrowed := config.borrowed) is not None:
        return borrowed
    train = text.map("train")
    reviews = _sample_reviews(train, config.tokenizer_sample, seed)
    if config.tokenizer == "unigram":
        _report_long_reviews(np.diff(train.offsets), reviews)
    log.info(
        "training a %s vocabulary of %s on %s reviews of the train split",
        config.tokenizer,
        f"{config.vocabulary_size:,}",
        f"{len(reviews):,}",
    )
    return SubwordTokenizer(config.tokenizer, _train_in_process(config, text, reviews, log_file))


def _sample_reviews(split: Split, most_bytes: int, seed: int) -> np.ndarray:
    """Choose reviews from all over a split: int64, rising, at most `most_bytes` in total.

    The split is cut into as many equal stretches as reviews are likely to fit, and one is drawn
    from each. Memory grows with the sample only.
    """
    if len(split.tokens) <= most_bytes:
        return np.arange(split.reviews)
    random = np.random.default_rng(seed)
    count = max(1, split.reviews * most_bytes // len(split.tokens))
    edges = np.linspace(0, split.reviews, count + 1).astype(np.int64)
    drawn = random.permutation(random.integers(edges[:-1], edges[1:]))
    lengths = split.offsets[drawn + 1] - split.offsets[drawn]
    chosen, room = [], most_bytes
    for review, length in zip(drawn.tolist(), lengths.tolist(), strict=True):
        if length <= room:
            chosen.append(review)
            room -= length
    if not chosen:
        raise InputError(
            f"--tokenizer-sample {most_bytes}: too few for one whole review; give more"
        )
    return np.sort(chosen)


def _report_long_reviews(lengths: np.ndarray, reviews: np.ndarray) -> None:
    long = np.count_nonzero(lengths[reviews] > _LONGEST_PIECE)
    if long:
        longest = reviews[lengths[reviews].argmax()]
        log.info(
            f"reviews of more than {_LONGEST_PIECE:,} bytes, {long:,} of them, are cut into pieces "
            f"to train on; the longest is review {longest + 1:,} of the train split, of "
            f"{lengths[longest]:,} bytes"
        )


def _pieces(text: bytes) -> Iterator[bytes]:
    """Cut a text into pieces of whole characters, which are not too long to train on."""
    begin = 0
    while begin < len(text):
        end = min(begin + _LONGEST_PIECE, len(text))
        while end < len(text) and text[end] & 0xC0 == 0x80 and end > begin + 1:
            end -= 1
        yield text[begin:end]
        begin = end


def _train_in_process(
    config: VocabularyConfig, text: Text, reviews: np.ndarray, log_file: Path
) -> bytes:
    """Train in a separate process, which can be stopped at any time and shows its progress."""
    others = {*multiprocessing.active_children()}
    with (
        ProcessPoolExecutor(1, CONTEXT, initializer=follow_parent) as pool,
        tqdm(desc="vocabulary", bar_format="{desc} {elapsed}{postfix}", disable=None) as bar,
    ):
        training = pool.submit(_train, config, text, reviews, log_file)
        trainers = {*multiprocessing.active_children()} - others  # none if it has been killed
        try:
            while not wait([training], _SECONDS_BETWEEN_LOOKS).done:
                bar.set_postfix_str(_last_line(log_file))
            return training.result()
        except (MemoryError, BrokenProcessPool) as error:
            raise ChildProcessError(
                "the process that trained the vocabulary ended, perhaps because memory ran out; "
                "run the same command with a smaller --tokenizer-sample: it continues from there"
            ) from error
        finally:
            for trainer in trainers:
                trainer.terminate()


def _train(config: VocabularyConfig, text: Text, reviews: np.ndarray, log_file: Path) -> bytes:
    split = text.map("train")
    ends = split.offsets[reviews + 1].tolist()
    places = zip(split.offsets[reviews].tolist(), ends, strict=True)
    texts = (split.tokens[start:end].tobytes() for start, end in places)
    if config.tokenizer == "unigram":
        texts = (piece for text in texts for piece in _pieces(text))
    with open_work(log_file, "w", encoding="utf-8") as file:
        return train_vocabulary(texts, config.tokenizer, config.vocabulary_size, file)


def _last_line(log_file: Path) -> str:
    """Return the trainer's last line of output, without its place in the source code."""
    lines = log_file.read_bytes().splitlines() if log_file.is_file() else []
    return lines[-1].decode("utf-8", "replace").rpartition("] ")[2][:70] if lines else ""


def tokenize(text: Text, tokenizer: Tokenizer, output: Path, workers: int) -> dict[str, Any]:
    """Write the splits to `output` as tokens; return their entries for meta.json."""
    splits = {name: text.map(name) for name in SPLITS}
    stretches = [stretch for name in SPLITS for stretch in _cut(name, splits[name])]
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(SplitWriter(output, name, splits[name].reviews))
            for name in SPLITS
        }
        total = sum(len(split.tokens) for split in splits.values())
        progress = stack.enter_context(ProgressBar("encoding", total, unit="B"))
        vocabulary = tokenizer.kind, tokenizer.content
        encode = partial(_encode_stretch, text=text, vocabulary=vocabulary)
        encoded = map_in_order(encode, stretches, workers)
        for (name, first, last), (content, lengths) in zip(stretches, encoded, strict=True):
            writers[name].append(content, lengths)
            progress.advance(int(splits[name].offsets[last] - splits[name].offsets[first]))
    return {
        name: {**writers[name].size(), "tokens": writers[name].position, "bytes": len(split.tokens)}
        for name, split in splits.items()
    }


def _cut(name: str, split: Split) -> Iterator[_Stretch]:
    # From 0 even if all reviews are empty.
    goals = np.arange(0, max(len(split.tokens), 1), _TOKENIZED_BYTES)
    edges = np.unique([*np.searchsorted(split.offsets, goals), split.reviews]).tolist()
    for first, last in pairwise(edges):
        yield name, first, last


def _encode_stretch(
    stretch: _Stretch, *, text: Text, vocabulary: tuple[str, bytes]
) -> tuple[bytes, np.ndarray]:
    """Return a stretch's tokens, little-endian, and its reviews' lengths in them, int64 [n]."""
    name, first, last = stretch
    split = text.map(name)
    offsets = split.offsets[first : last + 1].tolist()
    content = split.tokens[offsets[0] : offsets[-1]].tobytes()
    places = pairwise(offset - offsets[0] for offset in offsets)
    tokenizer = _loaded(*vocabulary)
    encoded = [tokenizer.encode(content[start:end]) for start, end in places]
    tokens = np.concatenate(encoded)
    assert tokenizer.decode(tokens) == content, f"{stretch}: decoded tokens differ from the text"
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return tokens.astype(tokenizer.dtype.newbyteorder("<")).tobytes(), lengths
