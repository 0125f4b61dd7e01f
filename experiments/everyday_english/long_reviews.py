"""Draw long reviews, which keep a network that learns from short texts good at long ones.

python -m experiments.everyday_english.long_reviews \\
    --reviews amazon/*.jsonl.gz --imdb imdb/imdb_train.jsonl.gz --texts data/everyday \\
    --held-out HELD_OUT --output data/long.jsonl

They share no wording with val, the test tenths or the held-out texts, as those of texts.py.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from configs import command
from experiments.board.sets import one_line
from experiments.everyday_english.reviews import SHORTEST_LONG, labelled
from experiments.everyday_english.texts import Example, counted, held_out_texts, read, write
from experiments.models.select_reviews import EXCLUDED, Review
from mlstm_sentiment.reading.records import read_records

LONGEST = 2000  # characters
FILMS, PRODUCTS = 3500, 700  # of each side, and of each number of stars
SEED = 1


@dataclass(frozen=True)
class Options:
    """Write long reviews as JSON lines."""

    reviews: tuple[Path, ...]
    """Reviews with stars; those of excluded.toml are left out."""
    imdb: Path
    """IMDB's training set."""
    texts: Path
    """The folder of experiments.everyday_english.texts."""
    held_out: tuple[Path, ...]
    """Files of texts that no training text may share wording with."""
    output: Path
    """The file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    pools: dict[str, set[str]] = {}
    for path in options.reviews:
        for record in read_records(path, strict=False):
            stars, text = record.get("overall"), one_line(Review.of(record).text)
            is_open = str(record.get("source")) not in EXCLUDED
            if stars and is_open and SHORTEST_LONG <= len(text) <= LONGEST:
                pools.setdefault(f"{stars:.0f}", set()).add(text)
    chooser = random.Random(SEED)
    chosen = [
        Example(text, stars, "amazon")
        for stars, texts in sorted(pools.items())
        for text in chooser.sample(sorted(texts), min(PRODUCTS, len(texts)))
    ]
    films = [e._replace(text=one_line(e.text)) for e in labelled(options.imdb, "imdb")]
    for side in ("negative", "positive"):
        own = [e for e in films if e.label == side and SHORTEST_LONG <= len(e.text) <= LONGEST]
        chosen += [e._replace(source="imdb_whole") for e in chooser.sample(own, FILMS)]
    others = [e for part in ("val", "test") for e in read(options.texts / f"{part}.jsonl")]
    held_out = held_out_texts(options.held_out, others)
    kept = [e for e in chosen if not any(held.shares_with(e.text) for held in held_out)]
    write(options.output, kept)
    print(f"{len(chosen) - len(kept)} left out; {counted(kept)}")


if __name__ == "__main__":
    command.run(main)
