"""Draw reviews and sentences of the grammar, which keep the heads good at what they knew.

python -m experiments.everyday_english.reviews \\
    --reviews amazon/*.jsonl.gz reviews_other-05.jsonl.xz \\
    --imdb imdb/imdb_train.jsonl.gz --sst sst/train.csv --sst-val sst/val.csv \\
    --grammar data/grammar.jsonl --output data/reviews
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs import command
from data_utils.labelled import read_labelled_sets
from experiments.board.sets import one_line
from experiments.default_model.everyday import everyday_sentences
from experiments.everyday_english.texts import ANSWERS, Example, read
from experiments.models.select_reviews import EXCLUDED, Review
from mlstm_sentiment.files.writer import make_folder
from mlstm_sentiment.reading.records import read_records

LONGEST = 300  # characters of a short review, and of a part of a long one
SHORTEST_LONG = 600  # characters of a long review of val
EACH = {"amazon": 3000, "titles": 2000, "imdb": 6000, "imdb_whole": 800}  # of each number of stars
VAL_EACH = 150  # of each category, length and number of stars
VAL_STARS = ("1", "2", "4", "5")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SEED = 0
SIDES = ("negative", "positive")


@dataclass(frozen=True)
class Options:
    """Write train.jsonl and val.jsonl."""

    reviews: tuple[Path, ...]
    """Reviews with stars. Those of excluded.toml become val, the others training texts."""
    imdb: Path
    """IMDB's training set."""
    sst: Path
    """SST's training set."""
    sst_val: Path
    """SST's validation set."""
    grammar: Path
    """Sentences of the default model's grammar, as JSON lines; the first 500 become val."""
    output: Path
    """The folder to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = random.Random(SEED)
    pools = rated(options.reviews)
    train, val = [], labelled(options.sst_val, "sst")
    train += labelled(options.sst, "sst")
    for (source, label), pool in sorted(pools.items()):
        if source in EACH:
            train += chooser.sample(pool, min(EACH[source], len(pool)))
        elif label in VAL_STARS:
            val += chooser.sample(pool, min(VAL_EACH, len(pool)))
    films = labelled(options.imdb, "imdb")
    chooser.shuffle(films)
    for side in SIDES:
        own = [e._replace(text=one_line(e.text)) for e in films if e.label == side]
        whole = [e for e in own if len(e.text) <= 2 * SHORTEST_LONG]
        train += [e._replace(text=part_of(e.text, chooser)) for e in own[: EACH["imdb"]]]
        train += [e._replace(source="imdb_whole") for e in whole[-EACH["imdb_whole"] :]]
    sentences = read(options.grammar)
    train, val = train + sentences[500:], val + sentences[:500]
    for file, source in (("everyday_val.toml", "everyday"), ("everyday.toml", "own")):
        val += [
            Example(sentence.text, sentence.label, source, sentence.kind)
            for sentence in everyday_sentences(file)
            if sentence.label in ANSWERS
        ]
    make_folder(options.output)
    for name, part in (("train", train), ("val", val)):
        lines = (json.dumps(example._asdict()) + "\n" for example in part)
        (options.output / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def rated(files: Iterable[Path]) -> dict[tuple[str, str], list[Example]]:
    """Return rated reviews and titles by source and stars.

    A source is amazon or titles for training; for val it is the length and the category.
    """
    pools: dict[tuple[str, str], dict[str, Example]] = defaultdict(dict)
    for path in files:
        for record in read_records(path, strict=False):
            review, stars = Review.of(record), record.get("overall")
            if not stars or not review.text.strip():
                continue
            label, text = f"{stars:.0f}", one_line(review.text)
            category = str(record.get("category") or "product")
            if str(record.get("source")) in EXCLUDED:
                length = "short" if len(text) <= LONGEST else "long"
                if length == "short" or SHORTEST_LONG <= len(text) <= 5 * SHORTEST_LONG:
                    source = f"{length} {category if path.suffix == '.xz' else 'product'}"
                    pools[source, label][text] = Example(text, label, source)
            elif len(text) <= LONGEST:
                pools["amazon", label][text] = Example(text, label, "amazon")
            elif review.title.strip():
                title = one_line(review.title)
                pools["titles", label][title] = Example(title, label, "titles")
    return {key: list(pool.values()) for key, pool in pools.items()}


def labelled(path: Path, source: str) -> list[Example]:
    """Read texts that are negative or positive."""
    (dataset,) = read_labelled_sets([path])
    pairs = zip(dataset.texts, dataset.labels.tolist(), strict=True)
    return [Example(text, SIDES[label], source) for text, label in pairs]


def part_of(text: str, chooser: random.Random) -> str:
    """Return the last or the first sentences of a text that fit."""
    sentences: Sequence[str] = SENTENCE_END.split(text)
    is_end = chooser.random() < 0.6
    chosen = ""
    for sentence in reversed(sentences) if is_end else sentences:
        longer = f"{sentence} {chosen}" if is_end else f"{chosen} {sentence}"
        if chosen and len(longer) > LONGEST:
            break
        chosen = longer.strip()
    return chosen[:LONGEST]


if __name__ == "__main__":
    command.run(main)
