"""Make the page of scripts/reproduce_2018.sh: the published figures, ours, and one score.

python -m experiments.reproduction.page --output runs/reproduce_minutes
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import how_to_get
from experiments.published_sets import SETS
from experiments.results import read_result, result_at
from experiments.scaling.tables import points_of, quality_of
from experiments.tables import markdown, origins
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_atomically, write_json

from .table import about, measured, title

SCORED = ("sst", "imdb", "cr")
# Bits per character by units: read off figures of NVIDIA/sentiment-discovery, to 0.005 bits.
BITS = {1024: 1.34, 4096: 1.13, 8192: 1.05}
UNIFORM = 8.0  # bits of a byte, of which a model knows nothing
PAGE, SCORE, MODEL, SCALING = "page.md", "score.json", "model", "scaling.json"
NEURON = {
    "ranking": "All units, by accuracy and by weight",
    "histogram": "The neuron's values on test, by label",
    "by_units": "Accuracy with few units",
    "by_labels": "Accuracy with few labels",
}
GENERATED = """\
**The reviews are generated**: the model learned from generated reviews, or was tested on them. They
show that every step runs. A comparison with the published figures needs `--data`."""
NOTES = """\
*Close*: 0 is an untrained model of the same shape, or the majority class where none was measured; 1
is the published model, or better. Of bits, 0 is 8 bits per character. The **score** is the mean.
One unit: the one of largest weight, fitted by itself on each set, as published. The published bits
are those of training text; ours are those of valid."""


@dataclass(frozen=True)
class Options:
    """Write page.md and score.json into the folder of a reproduction."""

    output: Path
    """The --output of scripts/reproduce_2018.sh."""


@dataclass(frozen=True)
class Compared:
    """One published figure next to ours, and what a model that learned nothing has."""

    what: str
    published: float
    units: int  # of the published model
    ours: float
    untrained: float

    @property
    def close(self) -> float:
        """How far ours is between the untrained model (0) and the published one (1)."""
        part = (self.ours - self.untrained) / (self.published - self.untrained)
        return min(max(part, 0.0), 1.0)


def main() -> None:
    folder = command.parse(Options, __doc__).output
    results = measured(folder / "results" / MODEL)
    model = next(iter(results.values()))["model"]
    bits = model["provenance"]["best_valid_bits_per_character"]
    rows = compared(results, bits, model["architecture"]["hidden_size"])
    page = page_of(folder, results, rows)
    write_atomically(
        folder / PAGE, lambda path: path.write_text(page, encoding="utf-8"), "a result"
    )
    described = [{**asdict(row), "close": row.close} for row in rows]
    about_it = {"model": model, "origin": describe_origin()}
    write_json(folder / SCORE, {"score": score(rows), "rows": described, **about_it}, "a result")
    command.say(f"score {score(rows):.2f} (1: as the published model): {folder / PAGE}")


def compared(results: Mapping[str, Any], bits: float, units: int) -> list[Compared]:
    """Return a row for each published figure of which we have ours.

    results: by set, as `experiments.reproduction.run` writes them; bits: per character, of a model
    with this many units. It is compared with the published model of the nearest size from 1,024.
    """

    def distance(other: int) -> float:
        return abs(log(other / max(units, 1024)))

    size = min(BITS, key=distance)
    rows = [Compared("bits per character", BITS[size], size, bits, UNIFORM)]
    for name in SCORED:
        for row in SETS[name].rows if name in results else ():
            known = [value for value in SETS[name].published if value.row == row.name]
            if known:
                best = min(
                    known,
                    key=lambda v: (
                        distance(v.units),
                        v.standing == "unverified",
                        v.source != "puri",
                    ),
                )
                rows.append(
                    Compared(
                        f"{SETS[name].title}, {row.title}", best.value, best.units,
                        *_ours(results[name], row.of),
                    )
                )  # fmt: skip
    return rows


def _ours(result: Mapping[str, Any], row: str) -> Sequence[float]:
    """Return a model's accuracy, and that of one that learned nothing."""
    untrained = {"all_units": "untrained", "one_unit": "untrained_one_unit"}[row]
    nothing = result.get(untrained, result["majority"])
    return result[row]["test_accuracy"], nothing["test_accuracy"]


def score(rows: Sequence[Compared]) -> float:
    """Return how close a model is to the published one, on average over the rows."""
    return mean(row.close for row in rows)


def shipped_score(model: str) -> str:
    """Return the score of a shipped model, for the first page."""
    results = {name: read_result("reproduction", f"{model}/{name}") for name in SCORED}
    bits = read_result("models", f"bits_{model}")["bits_per_character"]
    return f"{score(compared(results, bits, 1024)):.2f}"


def page_of(folder: Path, results: Mapping[str, Any], rows: Sequence[Compared]) -> str:
    """Return the page, in Markdown."""
    processor = next(iter(results.values()))["origin"]["hardware"]["processor"]
    parts = [
        "# The results of 2018, repeated",
        f"**Score {score(rows):.2f}** (1: as the published model).",
        about(next(iter(results.values()))["model"]),
        *([GENERATED] if _is_generated(folder) else []),
        _table(rows),
        NOTES,
        "## What was read",
        _what_was_read(folder, results),
        *_neuron(folder),
        "## Scaling to 128 GPUs",
        "Speed relative to one GPU, as published and as the performance model has it.",
        *_scaling(folder),
        "## Origin",
        f"{origins(results)} On {processor}. All published figures of these sets: "
        f"[table.png](results/{MODEL}/table.png).",
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Compared]) -> str:
    lines = []
    for row in rows:
        numbers = (row.published, row.ours, row.untrained)
        is_bits = row.untrained == UNIFORM
        cells = (f"{each:.2f}" if is_bits else f"{100 * each:.1f} %" for each in numbers)
        published, ours, untrained = cells
        lines.append(
            [row.what, f"{published} ({row.units:,} units)", ours, untrained, f"{row.close:.2f}"]
        )
    return markdown(["what", "published", "ours", "untrained", "close"], lines)


def _is_generated(folder: Path) -> bool:
    return not (folder / "corpus").exists() or (folder / "generated").exists()


def _what_was_read(folder: Path, results: Mapping[str, Any]) -> str:
    corpus = folder / "corpus" / "meta.json"
    if corpus.is_file():
        meta = read_json(corpus)
        counts = meta["splits"]["train"]
        lines = [
            f"- training: {counts['reviews']:,} reviews, {counts['bytes']:,} bytes, of "
            f"{', '.join(f'`{Path(source).name}`' for source in meta['sources'])}"
        ]
    else:
        lines = ["- training: the embedded generated reviews"]
    for name in SCORED:
        if name in results:
            sizes = " / ".join(f"{count:,}" for count in results[name]["examples"].values())
            generated = " (generated reviews in its place)" * (folder / "generated").exists()
            lines.append(f"- {title(name)}: train / val / test {sizes}{generated}")
        else:
            lines.append(f"- {SETS[name].title}: not measured; {how_to_get(name)}")
    return "\n".join(lines)


def _neuron(folder: Path) -> list[str]:
    if not (folder / "neuron" / "neuron.json").is_file():
        return []
    from transfer.neuron.report import verdict

    drawn = [
        f"![{words}](neuron/figures/{name}.png)"
        for name, words in NEURON.items()
        if (folder / "neuron" / "figures" / f"{name}.png").is_file()
    ]
    return ["## The neuron", verdict(read_json(folder / "neuron" / "neuron.json")), *drawn]


def _scaling(folder: Path) -> list[str]:
    result = result_at(folder / SCALING)
    if result is None:
        raise InputError(f"{folder / SCALING}: no such file; run scripts/reproduce_2018.sh")
    picture = Path(SCALING).with_suffix(".png")
    return [points_of(result), f"{quality_of(result)}.", f"![The figure of 2018]({picture})"]


if __name__ == "__main__":
    command.run(main)
