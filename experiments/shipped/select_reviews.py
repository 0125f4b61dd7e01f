"""Reviews that may be trained on and shipped: by licence of the source, apart from all test sets.

python -m experiments.shipped.select_reviews amazon/*.jsonl.gz --held-out sst/test.csv mr/*.txt \\
    --output data/selected.jsonl
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from configs import command
from data_utils.records import read_records
from data_utils.texts import ReadingReport, read_texts
from experiments.shipped.overlap import HeldOut
from model.storage import write_json

SEPARATOR = " | "  # between a text and its title

# Why a source's text is left out of what weights are shipped from.
AWS = "its licence forbids redistribution"
NON_COMMERCIAL = "non-commercial licence"
UNKNOWN = "no known licence"
UNKNOWN_SOURCES = (
    "alexa",
    "amazon_in_scrapes",
    "bestsellers_detective",
    "biscotti_chinmay",
    "books_akhila",
    "books_russell",
    "chromebook_eddieward",
    "consoles_amcerri",
    "earbuds_in_adhi",
    "earbuds_ravinder",
    "earphones_in",
    "firestick_yuanyuanzho",
    "fudj_akilsevim",
    "info5731_vinod",
    "iphone_in_silkymis",
    "jaisurya",
    "kindle_axie",
    "kindle_devices_tsavko",
    "laptops_amcerri",
    "laptops_uk_zakariae",
    "misc_drivepack",
    "mivi_in_shaan",
    "mlu_software",
    "mp3_players_tejas",
    "personal_care_in_vfl",
    "personal_care_qmng",
    "phones_in_lavan",
    "pillows_mazaltov",
    "roku_paulastefani",
    "software_tztzwws",
    "streaming_devices_nguyen",
    "tablets_iamprem",
    "unlocked_mobile",
)
EXCLUDED = {
    **dict.fromkeys(("aws_us_reviews", "amazon_uk_vishakha", "marc_en"), AWS),
    **dict.fromkeys(("datafiniti", "datafiniti_1429", "datafiniti_akash"), NON_COMMERCIAL),
    **dict.fromkeys(UNKNOWN_SOURCES, UNKNOWN),
}


@dataclass(frozen=True)
class Options:
    """Write the reviews that may be trained on, and beside them a report of what was left out."""

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """JSON lines with the keys reviewText and source, or text alone."""
    held_out: tuple[Path, ...]
    """Labelled sets that must not be met in training; any format with a text."""
    output: Path
    """The file of reviews to write; the report gets its name with .report.json."""
    title: Literal["none", "first", "last"] = "none"
    """Where a review's title goes: nowhere, before its text, or behind it."""


def main() -> None:
    options = command.parse(Options, __doc__)
    held_out = HeldOut(read_texts(options.held_out, None, ReadingReport(), strict=False))
    counts: Counter[str] = Counter()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", encoding="utf-8") as file:
        for text, title in selected(options.inputs, held_out, counts):
            file.write(json.dumps({"text": arranged(text, title, options.title)}) + "\n")
    for reason, reviews in sorted(counts.items()):
        print(f"{reviews:>9,} reviews  {reason}")
    held_out_names = [path.name for path in options.held_out]
    report = {"reviews": dict(sorted(counts.items())), "held_out": held_out_names}
    write_json(options.output.with_suffix(".report.json"), report)


def arranged(text: str, title: str, place: str) -> str:
    """Return a review as it is trained on."""
    if not title or place == "none":
        return text
    return f"{title}{SEPARATOR}{text}" if place == "first" else f"{text}{SEPARATOR}{title}"


def selected(
    inputs: Sequence[Path], held_out: HeldOut, counts: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield texts to keep, with titles; count every review under its source or what bars it."""
    for path in inputs:
        for record in read_records(path, strict=False):
            text = str(record.get("reviewText") or record.get("text") or "")
            title = str(record.get("summary") or "").strip()
            source = str(record.get("source", path.name))
            reason = EXCLUDED.get(source) or (
                "shares wording with a held-out text"
                if held_out.shares_with(f"{title} {text}")
                else None
            )
            counts[f"left out: {reason}" if reason else f"kept: {source}"] += 1
            if reason is None:
                yield text, title


if __name__ == "__main__":
    command.run(main)
