"""Select the texts from which the default model learns sentiment.

python -m experiments.default_model.texts --amazon amazon/*.jsonl.gz \\
    --imdb imdb/imdb_train.jsonl.gz --sst sst/train.csv --sst-val sst/val.csv \\
    --output data/default --held-out sst/val.csv sst/test.csv \\
    semeval-val.txt semeval-test.txt imdb/imdb_test.jsonl.gz
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from configs import command
from data_utils.labelled import read_labelled_sets
from data_utils.provenance import describe_origin
from experiments.default_model.sentences.everyday import (
    VALIDATION,
    everyday_sentences,
    everyday_wordings,
)
from experiments.default_model.sentences.examples import (
    STARS,
    Example,
    counts_of,
    normalized,
    write_examples,
)
from experiments.default_model.sentences.grammar import Sentence, draw
from experiments.default_model.sentences.rare import (
    LONGEST_SENTENCE,
    SENTENCE_END,
    noisy_copies,
    rare_texts,
)
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import Review, what_bars
from model.bounds import PositiveInt
from model.errors import InputError
from model.files.storage import write_json
from model.reading.records import read_records
from model.reading.texts import ReadingReport, read_texts

POLARITY = ("negative", "positive")
REVIEWS_PER_STAR = 3400  # of Amazon, and as many titles of other reviews
LONGEST = 300  # characters of an Amazon review, and of a part of an IMDB review
SENTENCES = 30_000  # of the grammar
NOISY = 12_000  # copies of short texts with mistakes
SST_COPIES = 5  # of SST's sentences in train
VAL_EACH = 500  # texts in val of each source except SST
SEED = 0  # draws the texts and their order


@dataclass(frozen=True)
class Options:
    """Write train.jsonl and val.jsonl with the keys text, label and source, and a report."""

    amazon: tuple[Path, ...]
    """Reviews with stars and titles, of Amazon or other places."""
    imdb: Path
    """IMDB's training set."""
    sst: Path
    """SST's training set."""
    sst_val: Path
    """SST's validation set, which becomes a part of val."""
    held_out: tuple[Path, ...]
    """Files of texts that must not occur in training."""
    output: Path
    """The folder to write."""
    report: Path | None = None
    """Where to write how many texts each source gave. Default: report.json in the folder."""
    parts: PositiveInt = 1
    """Number of parts of each IMDB review, which are drawn apart and may overlap."""
    whole: int = 8000
    """Number of whole IMDB reviews, of at most `longest_whole` characters."""
    longest_whole: int = 1500
    """Most characters of a whole IMDB review."""
    other_val: tuple[Path, ...] = ()
    """Rated reviews of other domains that no shipped model may learn from; some become val."""
    longer: int = 0
    """Number of longer rated reviews of each number of stars, each of which contributes a part."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = random.Random(SEED)
    held_out = HeldOut(read_texts(options.held_out, None, ReadingReport(), strict=False))
    val = labelled(options.sst_val, "sst")
    train = apart(labelled(options.sst, "sst"), held_out)
    *pool, longer = rated_texts(options.amazon, held_out)
    drawn = [balanced(part, REVIEWS_PER_STAR + VAL_EACH // len(STARS), chooser) for part in pool]
    train += parts_of(balanced(longer, options.longer, chooser), 1, chooser)
    for part in (*drawn, grammar_sentences(VAL_EACH, SENTENCES, chooser)):
        train += part[VAL_EACH:]
        val += part[:VAL_EACH]
    films, films_val = film_reviews(options, held_out, chooser)
    train, val = train + films, val + films_val
    wordings = {normalized(example.text) for example in (*train, *val)}
    train += rare_texts(chain(*pool), wordings, chooser)
    train = apart(train, held_out)  # also the grammar's sentences, and what parts begin with
    train += apart(noisy_copies(train, NOISY, chooser), held_out)
    train += [e for e in train if e.source == "sst"] * (SST_COPIES - 1)
    chooser.shuffle(train)
    val += [Example(s.text, s.label, "everyday") for s in everyday_sentences(VALIDATION)]
    val += other_domains(options.other_val, held_out)
    write(options.output, train, val, options.report or options.output / "report.json")


def write(folder: Path, train: Sequence[Example], val: Sequence[Example], counts: Path) -> None:
    """Write the examples, and to `counts` how many there are of each source."""
    folder.mkdir(parents=True, exist_ok=True)
    report = {}
    for name, part in (("train", train), ("val", val)):
        write_examples(folder / f"{name}.jsonl", part)
        report[name] = counts_of(part)
    write_json(counts, {**report, "origin": describe_origin()})
    print(json.dumps(report, indent=1))


def grammar_sentences(
    held: int, count: int, chooser: random.Random, draw: Callable[..., Sentence] = draw
) -> list[Example]:
    """Return `held` sentences that `draw` gives, then `count` others that differ in their words.

    Mistakes, capitals and endings make no other sentence of a held one.
    """
    drawn: dict[str, Example] = {}
    wordings: set[str] = set()  # of the held ones
    while len(drawn) < held + count:
        sentence = draw(chooser)
        wording = normalized(sentence.plain)
        if len(drawn) < held:
            wordings.add(wording)
        elif wording in wordings:
            continue
        drawn[sentence.text] = Example(sentence.text, sentence.label, "grammar")
    return list(drawn.values())


def rated_texts(
    files: Iterable[Path], held_out: HeldOut
) -> tuple[list[Example], list[Example], list[Example]]:
    """Read reviews of at most LONGEST characters, the titles of longer ones, and the longer ones.

    Each wording occurs once.
    """
    reviews: dict[str, Example] = {}
    titles: dict[str, Example] = {}
    longer: dict[str, Example] = {}
    for path in files:
        for record in read_records(path, strict=False):
            stars = record.get("overall")
            review = Review.of(record)
            if not stars or what_bars(review, str(record.get("source")), held_out):
                continue
            label = f"{stars:.0f}"
            if len(review.text) <= LONGEST:
                keep(reviews, Example(review.text, label, "amazon"))
            else:
                keep(titles, Example(review.title, label, "titles"))
                keep(longer, Example(one_line(review.text), label, "longer"))
    for examples in (reviews, titles):
        for wording in everyday_wordings() | {""}:
            examples.pop(wording, None)
    return list(reviews.values()), list(titles.values()), list(longer.values())


def keep(by_wording: dict[str, Example], example: Example) -> None:
    """Keep an example unless there is one of the same wording."""
    by_wording.setdefault(normalized(example.text), example)


def other_domains(files: Iterable[Path], held_out: HeldOut) -> list[Example]:
    """Return the first short reviews of one or five stars, as many of both, for each category.

    Only from sources whose licences keep them out of training.
    """
    groups: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for path in files:
        for record in read_records(path, strict=False):
            review, stars = Review.of(record), record.get("overall")
            category = str(record.get("category"))
            if stars not in (1, 5) or len(review.text) > LONGEST_SENTENCE:
                continue
            if what_bars(review, str(record.get("source")), held_out, "others") is not None:
                continue
            group = groups[category, f"{stars:.0f}"]
            if len(group) < VAL_EACH // 2:
                group.append(Example(one_line(review.text), f"{stars:.0f}", category))
    return [e for group in groups.values() if len(group) == VAL_EACH // 2 for e in group]


def balanced(examples: Sequence[Example], each: int, chooser: random.Random) -> list[Example]:
    """Draw equally many examples of every number of stars, and interleave the stars."""
    by_stars = {stars: [e for e in examples if e.label == stars] for stars in STARS}
    fewest = min(map(len, by_stars.values()))
    if fewest < each:
        raise InputError(f"{fewest:,} texts of one number of stars, {each:,} asked for")
    drawn = [chooser.sample(part, each) for part in by_stars.values()]
    return [example for row in zip(*drawn, strict=True) for example in row]


def film_reviews(
    options: Options, held_out: HeldOut, chooser: random.Random
) -> tuple[list[Example], list[Example]]:
    """Return parts of IMDB's training reviews and some whole ones, and whole ones for val."""
    reviews = [
        Example(one_line(review.text), review.label, "imdb")
        for review in apart(labelled(options.imdb, "imdb"), held_out)
    ]
    chooser.shuffle(reviews)
    val, rest = reviews[:VAL_EACH], reviews[VAL_EACH:]
    parts = parts_of(rest, options.parts, chooser)
    whole = [e for e in rest if LONGEST < len(e.text) <= options.longest_whole]
    return parts + whole[: options.whole], val


def parts_of(reviews: Sequence[Example], each: int, chooser: random.Random) -> list[Example]:
    """Return `each` parts of every review, and a review that is short enough once, whole."""
    return [
        review._replace(text=part_of(review.text, LONGEST, chooser))
        for review in reviews
        for _ in range(each if len(review.text) > LONGEST else 1)
    ]


def one_line(text: str) -> str:
    """Return a review without HTML line breaks, with single spaces."""
    return " ".join(text.replace("<br />", " ").split())


def part_of(text: str, longest: int, chooser: random.Random) -> str:
    """Return the last sentences of a text, its first and last ones, or some from the middle.

    Half of the draws are last sentences, which contain the verdict.
    """
    if len(text) <= longest:
        return text
    manner = chooser.random()
    if manner < 0.5:
        return last_sentences(text, longest)
    if manner < 0.75:
        return f"{first_sentences(text, longest // 2)} {last_sentences(text, longest // 2)}"
    sentences = SENTENCE_END.split(text)
    return first_sentences(" ".join(sentences[chooser.randrange(len(sentences)) :]), longest)


def first_sentences(text: str, longest: int) -> str:
    """Return the first sentences that fit; if none fits, the first words."""
    head = text[:longest]
    whole = [end.start() for end in SENTENCE_END.finditer(text[: longest + 1])]
    return head[: whole[-1]] if whole else head.rsplit(" ", 1)[0]


def last_sentences(text: str, longest: int) -> str:
    """Return the last sentences that fit; if none fits, the last words."""
    start = max(len(text) - longest, 0)
    whole = [end.end() for end in SENTENCE_END.finditer(text) if end.end() >= start]
    return text[whole[0] :] if whole else text[start:].split(" ", 1)[-1]


def labelled(path: Path, source: str) -> list[Example]:
    """Read texts that are negative or positive."""
    (dataset,) = read_labelled_sets([path])
    pairs = zip(dataset.texts, dataset.labels.tolist(), strict=True)
    return [Example(text, POLARITY[label], source) for text, label in pairs]


def apart(examples: Iterable[Example], held_out: HeldOut) -> list[Example]:
    """Return the examples that share no wording with held-out texts."""
    return [
        example
        for example in examples
        if not held_out.shares_with(example.text)
        and normalized(example.text) not in everyday_wordings()
    ]


if __name__ == "__main__":
    command.run(main)
