"""Fit the weights by which runs of letters show that a text is not English.

python -m experiments.everyday_english.language --texts data/everyday --output runs/language.npz

Other languages are words drawn by their frequency: the lists of wordfreq (CC BY-SA 4.0, Speer
2022), in 41 languages. It is no dependency of this repository: pip install wordfreq
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from configs import command
from experiments.everyday_english.texts import read
from mlstm_sentiment.head.ngrams import buckets_of, runs_of_letters
from mlstm_sentiment.text.profiles import text_profile

BUCKETS = 2**14
LANGUAGES_TEXTS = 700  # of each other language
ENGLISH_TEXTS = 1500  # of each source
ENGLISH_WORDS = 8000  # texts of English words by frequency
COMMONEST = 20_000  # words of a language
LONGEST = 400  # characters of a text
STRENGTH = 100.0  # C
SEED = 0


@dataclass(frozen=True)
class Options:
    """Write weights, int8 [buckets], and scale."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    output: Path
    """The file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = random.Random(SEED)
    by_source: dict[str, list[str]] = {}
    for example in read(options.texts / "train.jsonl"):
        by_source.setdefault(example.source, []).append(example.text)
    english = [
        text
        for texts in by_source.values()
        for text in chooser.sample(texts, min(ENGLISH_TEXTS, len(texts)))
    ]
    english += drawn("en", ENGLISH_WORDS)
    others = [text for language in languages() for text in drawn(language, LANGUAGES_TEXTS)]
    clean = text_profile("openai").clean
    texts = [clean(text)[:LONGEST] for text in (*english, *others)]
    labels = np.repeat([0, 1], [len(english), len(others)])
    fit = LogisticRegression(C=STRENGTH, fit_intercept=False, max_iter=200, tol=1e-5)
    rows = [buckets_of(text, BUCKETS, runs_of_letters) for text in texts]
    weights = fit.fit(hashed(rows, BUCKETS), labels).coef_[0]
    scale = float(np.abs(weights).max()) / 127
    np.savez(options.output, weights=(weights / scale).round().astype(np.int8), scale=scale)
    print(f"{len(english):,} English texts, {len(others):,} others")


def languages() -> list[str]:
    """Return the other languages that have a list."""
    import wordfreq

    return sorted(set(wordfreq.available_languages()) - {"en"})


def drawn(language: str, texts: int) -> list[str]:
    """Return runs of two to twelve words of a language, drawn by their frequency."""
    import wordfreq

    draw = np.random.default_rng([SEED, *language.encode()])
    frequencies = wordfreq.get_frequency_dict(language)
    words = sorted(frequencies, key=frequencies.__getitem__, reverse=True)[:COMMONEST]
    chances = np.array([frequencies[word] for word in words])
    chances /= chances.sum()
    return [" ".join(draw.choice(words, draw.integers(2, 13), p=chances)) for _ in range(texts)]


def hashed(rows: Sequence[np.ndarray], buckets: int) -> sparse.csr_matrix:
    """Return which buckets each text has, over the root of their number, [N, buckets]."""
    sizes = np.array(list(map(len, rows)))
    values = np.repeat(1 / np.sqrt(sizes.clip(1)), sizes)
    ends = np.concatenate([[0], sizes.cumsum()])
    return sparse.csr_matrix((values, np.concatenate(rows), ends), (len(rows), buckets))


if __name__ == "__main__":
    command.run(main)
