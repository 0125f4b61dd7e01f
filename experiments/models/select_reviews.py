"""Select reviews whose licence allows shipped weights and that share no wording with test sets.

python -m experiments.models.select_reviews amazon/*.jsonl.gz --held-out sst/test.csv mr/*.txt \\
    --output data/selected.jsonl
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from experiments.models.near_copies import reviews_of
from experiments.models.overlap import HeldOut
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.files.writer import write_atomically, write_json
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.texts import ReadingReport, read_texts

HERE = Path(__file__).resolve().parent
SEPARATOR = " | "  # between a text and its title
STARS = re.compile(r"\b(one|two|three|four|five|[1-5])[ -]stars?\b", re.IGNORECASE)

Licences = Literal["allowing", "others"]

# Why the text of a source may not be trained on, by the source's name.
EXCLUDED = {
    source: reason
    for reason, sources in tomllib.loads((HERE / "excluded.toml").read_text()).items()
    for source in sources
}


@dataclass(frozen=True)
class Options:
    """Write the reviews that may be trained on, and a report on those left out."""

    inputs: Annotated[tuple[Path, ...], Argument(positional=True)]
    """JSON lines with the keys reviewText and source, or text alone."""
    held_out: tuple[Path, ...]
    """Files of labelled sets that must not occur in training, in any format with a text."""
    output: Path
    """The file of reviews to write; the report has its name with .report.json."""
    title: Literal["none", "first", "last"] = "none"
    """Position of a review's title: nowhere, before its text, or after it."""
    most_of_a_category: float | None = None
    """Most megabytes of text of one category, in the order of the files. Default: all."""
    held_out_corpora: tuple[Path, ...] = ()
    """Corpora of bytes whose valid and test splits must not occur either."""


SIDES = {"+": "positive", "-": "negative", "": "neither or unknown"}  # by a review's mark


@dataclass(frozen=True)
class Review:
    """The parts of a record that may be trained on."""

    text: str
    title: str = ""
    mark: str = ""
    """+ for more than three stars or a positive label, - for fewer stars or a negative label."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Review":
        """Read a record with the keys reviewText or text, summary, overall, sentiment."""
        return cls(
            str(record.get("reviewText") or record.get("text") or ""),
            str(record.get("summary") or "").strip(),
            mark_of(record.get("overall"), record.get("sentiment")),
        )


def mark_of(stars: float | None, label: int | None) -> str:
    """Return + or -, or an empty mark if neither stars nor a label decide."""
    if stars is not None:
        return "+" if stars > 3 else "-" if stars < 3 else ""
    return "" if label is None else "+" if label else "-"


def main() -> None:
    options = command.parse(Options, __doc__)
    report_path = options.output.with_suffix(".report.json")
    command.prepare_output(options.output, report_path)
    held_out = HeldOut(held_out_texts(options.held_out, options.held_out_corpora))
    counts: Counter[str] = Counter()
    titles = {"with a title": 0, "whose title names stars": 0}
    sides = {"positive": 0, "negative": 0, "neither or unknown": 0}

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for review in selected(options, held_out, counts):
                text = arranged(review, options.title)
                file.write(json.dumps({"text": text}) + "\n")
                titles["with a title"] += bool(review.title)
                titles["whose title names stars"] += bool(STARS.search(review.title))
                sides[SIDES[review.mark]] += 1

    write_atomically(options.output, write, "a result")
    for reason, reviews in sorted(counts.items()):
        print(f"{reviews:>9,} reviews  {reason}")
    held_out_names = [path.name for path in options.held_out]
    kept = {"reviews": dict(sorted(counts.items())), "titles": titles, "sides": sides}
    report = {**kept, "held_out": held_out_names}
    write_json(report_path, {**report, "origin": describe_origin()}, "a result")


def arranged(review: Review, title: str) -> str:
    """Return the training text of a review."""
    parts = [review.text]
    if review.title and title != "none":
        parts.insert(0 if title == "first" else len(parts), review.title)
    return SEPARATOR.join(parts)


def held_out_texts(files: Sequence[Path], corpora: Sequence[Path]) -> Iterator[str]:
    """Yield the texts of the files, then the reviews of the corpora's valid and test splits."""
    yield from read_texts(files, None, ReadingReport(), strict=False)
    for corpus in corpora:
        splits = open_corpus(corpus).splits
        for name in ("valid", "test"):
            yield from reviews_of(splits[name])


def selected(options: Options, held_out: HeldOut, counts: Counter[str]) -> Iterator[Review]:
    """Yield the reviews to keep; count each one by its source, or by the reason to leave it out."""
    most = math.inf if options.most_of_a_category is None else options.most_of_a_category * 1e6
    taken: Counter[str] = Counter()  # characters by category
    for path in options.inputs:
        for record in read_records(path, strict=False):
            review = Review.of(record)
            source = str(record.get("source", path.name))
            category = str(record.get("category", path.name))
            reason = what_bars(review, source, held_out)
            if reason is None and taken[category] >= most:
                reason = "more of its category than asked for"
            counts[f"left out: {reason}" if reason else f"kept: {source}"] += 1
            if reason is None:
                taken[category] += len(review.text)
                yield review


def what_bars(
    review: Review, source: str, held_out: HeldOut, licences: Licences = "allowing"
) -> str | None:
    """Return why a review may not be used, or None.

    licences: those of its source that allow training on it, or the others.
    """
    assert licences in get_args(Licences), licences
    if licences == "allowing" and source in EXCLUDED:
        return EXCLUDED[source]
    if licences == "others" and source not in EXCLUDED:
        return "its licence allows shipped weights"
    if not review.text.strip():
        return "no text"
    if held_out.shares_with(f"{review.title} {review.text}"):
        return "shares wording with a held-out text"
    return None


if __name__ == "__main__":
    command.run(main)
