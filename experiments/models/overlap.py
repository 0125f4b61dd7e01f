"""Find texts that share a run of twelve words with held-out texts."""

import re
from collections.abc import Iterable

import numpy as np

RUN = 12  # words in a row; two texts do not share so many by chance
SHORTEST = 5  # words; shorter held-out texts are everyday speech, which training may have
MULTIPLIER = np.uint64(6364136223846793005)


class Words:
    """Random numbers for words, which consist of a-z and 0-9, in lower case."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._random = np.random.default_rng(0)

    def read(self, text: str) -> np.ndarray:
        """Return a number for each word, uint64 [words]; equal words have equal numbers."""
        words = re.findall("[a-z0-9]+", text.lower().replace("'", ""))
        for word in words:
            if word not in self._numbers:
                self._numbers[word] = int(self._random.integers(2**64, dtype=np.uint64))
        return np.fromiter((self._numbers[word] for word in words), np.uint64, len(words))


class HeldOut:
    """The runs of words of held-out texts. A text shorter than a run counts as one run.

    run: words of a run. shortest: words of a text; shorter ones may occur.
    """

    def __init__(self, texts: Iterable[str], run: int = RUN, shortest: int = SHORTEST):
        self._read = Words().read
        runs: dict[int, list[np.ndarray]] = {}
        for text in texts:
            words = self._read(text)
            if len(words) >= shortest:
                size = min(run, len(words))
                runs.setdefault(size, []).append(run_hashes(words, size))
        self._runs = {size: np.unique(np.concatenate(parts)) for size, parts in runs.items()}

    def shares_with(self, text: str) -> bool:
        """Return whether the text contains a run of words of a held-out text."""
        words = self._read(text)
        return any(contains(known, run_hashes(words, size)) for size, known in self._runs.items())


def run_hashes(words: np.ndarray, size: int) -> np.ndarray:
    """Return a hash of each run of `size` words, uint64 [words - size + 1], or none."""
    count = max(len(words) - size + 1, 0)
    hashes = np.zeros(count, np.uint64)
    for offset in range(size):  # modulo 2^64: a polynomial in MULTIPLIER
        hashes = hashes * MULTIPLIER + words[offset : offset + count]
    return hashes


def contains(known: np.ndarray, hashes: np.ndarray) -> bool:
    """Return whether any of the hashes is in `known`, which is sorted."""
    places = np.searchsorted(known, hashes).clip(max=len(known) - 1)
    return bool((known[places] == hashes).any())
